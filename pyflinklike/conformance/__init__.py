# SPDX-License-Identifier: Apache-2.0
"""The suite that every state backend must pass, yours included.

    # tests/test_my_backend.py
    from pyflinklike.conformance import StateBackendConformance

    class TestMyStateBackend(StateBackendConformance):
        def state_backend(self):
            return MyStateBackend()

It states the rules of `pyflinklike.state.table` as tests, for every shape of table: absence,
values, iteration, ranges, access without a key, and what a backend owes the runtime: key groups
kept apart, changes drained once, contents that any other backend can take over, sweeps that come by
every entry.

Keys are of `Types.STRING()`.  Entries are in their frozen form.
`pytest.register_assert_rewrite("pyflinklike.conformance")` before the import makes failures
tell what was compared.
"""

from __future__ import annotations

from pyflinklike.conformance.entry_laws import (
    EntriesConformance,
    IterationConformance,
    RangesConformance,
)
from pyflinklike.conformance.group_laws import (
    ChangesConformance,
    CleanupConformance,
    KeysConformance,
    LifecycleConformance,
)

__all__ = ["StateBackendConformance"]


# pytest collects from the last base to the first.
class StateBackendConformance(
    RangesConformance,
    CleanupConformance,
    ChangesConformance,
    KeysConformance,
    IterationConformance,
    EntriesConformance,
    LifecycleConformance,
):
    """Subclass it as `Test...` and say which backend to test."""
