# SPDX-License-Identifier: Apache-2.0
"""Every backend of the package passes the published suite."""

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.conformance import StateBackendConformance


class TestHashMapStateBackend(StateBackendConformance):
    """Dicts in the worker."""

    def state_backend(self) -> StateBackend:
        """The default one."""
        return HashMapStateBackend()
