# SPDX-License-Identifier: Apache-2.0
"""The batches of a `KeyedBatchFunction`, their groups by key, and states as columns.

It needs NumPy: `pip install 'pyflinklike[columns]'`; the extra `spark` has it, too.
"""

from pyflinklike.columns.batch import KeyedBatch
from pyflinklike.columns.groups import Groups
from pyflinklike.columns.map_state import ColumnMapEntries, ColumnMapItems, ColumnMapState
from pyflinklike.columns.state import ColumnState
from pyflinklike.doors import pin

__all__ = [
    "ColumnMapEntries",
    "ColumnMapItems",
    "ColumnMapState",
    "ColumnState",
    "Groups",
    "KeyedBatch",
]

pin(globals())
