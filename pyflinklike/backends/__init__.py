# SPDX-License-Identifier: Apache-2.0
"""The names with which you write a state backend of your own.

The backends of this package derive from `KeyedBackend`, too.  `Table` states the six rules that every
backend keeps.  `HeapTableData` and `new_table` are the tables of the default backend, and yours may use
them.
"""

from pyflinklike._changelog.key_group_state import (
    KeyedStateBackend,
    KeyGroupState,
    LocalStateBackend,
)
from pyflinklike._exports import export_public
from pyflinklike.backends.heap.dict_tables import HeapTableData
from pyflinklike.backends.heap.ordered_tables import new_table
from pyflinklike.backends.state_backend import KeyedBackend, LoggedTable, StateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import OrderedTable, Shape, Table, TableChanges, TableSpec

__all__ = [
    "CurrentKey",
    "HeapTableData",
    "KeyGroupState",
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
    "new_table",
]

export_public(globals())
