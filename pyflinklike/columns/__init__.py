# SPDX-License-Identifier: Apache-2.0
"""The batches of a `KeyedBatchFunction`, their groups by key, and states as columns.

It needs NumPy: `pip install '.[columns]'`; the extra `spark` has it, too.
"""

from pyflinklike._exports import pin
from pyflinklike.columns.column_state import (
    ColumnMapEntries,
    ColumnMapItems,
    ColumnMapState,
    ColumnState,
)
from pyflinklike.columns.keyed_batch import Groups, KeyedBatch

__all__ = [
    "ColumnMapEntries",
    "ColumnMapItems",
    "ColumnMapState",
    "ColumnState",
    "Groups",
    "KeyedBatch",
]

pin(globals())
