# SPDX-License-Identifier: Apache-2.0
"""What a writer of a state backend works with.

`KeyedBackend` is the base class of ours, too; `Table` has the six rules that every backend keeps.
`HeapTableData` and `new_table` are the tables of the default backend, which others may borrow.
"""

from pyflinklike._changelog.working_state import KeyedStateBackend, LocalStateBackend, WorkingState
from pyflinklike._exports import pin
from pyflinklike.backends.heap.dict_tables import HeapTableData
from pyflinklike.backends.heap.ordered_table import new_table
from pyflinklike.backends.state_backend import KeyedBackend, LoggedTable, StateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import OrderedTable, Shape, Table, TableChanges, TableSpec

__all__ = [
    "CurrentKey",
    "HeapTableData",
    "KeyedBackend",
    "KeyedStateBackend",
    "LocalStateBackend",
    "LoggedTable",
    "OrderedTable",
    "Shape",
    "StateBackend",
    "Table",
    "TableChanges",
    "TableSpec",
    "WorkingState",
    "new_table",
]

pin(globals())
