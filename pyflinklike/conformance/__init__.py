# SPDX-License-Identifier: Apache-2.0
"""The suite that every state backend must pass, yours included.

    # tests/test_my_backend.py
    from pyflinklike.conformance import StateBackendConformance

    class TestMyStateBackend(StateBackendConformance):
        def state_backend(self):
            return MyStateBackend()

The tests check the rules of `pyflinklike.state.table` for every shape of table: absence, values,
iteration, ranges, and access without a key.  They also check the duties of a backend towards the
runtime: it keeps key groups apart, returns each change once, gives contents that any other backend
can read, and its sweeps reach every entry.

Keys are of `Types.STRING()`, and entries are in their frozen form.  To see in a failure which
values were compared, call `pytest.register_assert_rewrite("pyflinklike.conformance")` before the
import.
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


# pytest collects from the last base to the first, so the simplest laws are tested first.
class StateBackendConformance(
    RangesConformance,
    CleanupConformance,
    ChangesConformance,
    KeysConformance,
    IterationConformance,
    EntriesConformance,
    LifecycleConformance,
):
    """All laws of a backend; subclass it as `Test...` and define `state_backend`."""
