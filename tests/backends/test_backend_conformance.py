# SPDX-License-Identifier: Apache-2.0
"""Every backend of the package passes the published suite."""

import pytest

pytest.register_assert_rewrite("pyflinklike.testing.conformance")

from pyflinklike.backends.base import StateBackend  # noqa: E402
from pyflinklike.backends.heap.backend import HashMapStateBackend  # noqa: E402
from pyflinklike.testing.conformance import StateBackendConformance  # noqa: E402


class TestHashMapStateBackend(StateBackendConformance):
    """Dicts in the worker."""

    def state_backend(self) -> StateBackend:
        """The default one."""
        return HashMapStateBackend()
