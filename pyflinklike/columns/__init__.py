# SPDX-License-Identifier: Apache-2.0
"""Functions of batches of records, with state and timers as columns, and the harness to test them.

They need NumPy: `pip install '.[columns]'`; the extra `spark` has it, too.
"""

from typing import TYPE_CHECKING

from pyflinklike._checks import install
from pyflinklike._exports import export_public, lazily
from pyflinklike.errors import RequirementError

try:
    import pyflinklike.columns.function_kind  # noqa: F401  registers the kind
    from pyflinklike.columns.column_state import (
        ColumnMapEntries,
        ColumnMapItems,
        ColumnMapState,
        ColumnState,
    )
    from pyflinklike.columns.keyed_batch import Groups, KeyedBatch
    from pyflinklike.columns.keyed_batch_function import ColumnTimerService, KeyedBatchFunction
except ImportError as error:
    msg = (
        f"a KeyedBatchFunction needs the package numpy, got {error}; "
        f"{install('columns')} wherever it runs"
    )
    raise RequirementError(msg) from error

if TYPE_CHECKING:
    from pyflinklike.columns.batch_harness import KeyedBatchHarness

__all__ = [
    "ColumnMapEntries",
    "ColumnMapItems",
    "ColumnMapState",
    "ColumnState",
    "ColumnTimerService",
    "Groups",
    "KeyedBatch",
    "KeyedBatchFunction",
    "KeyedBatchHarness",
]

export_public(globals())
# A worker needs no harness.
lazily(globals(), KeyedBatchHarness="pyflinklike.columns.batch_harness")
