# SPDX-License-Identifier: Apache-2.0
"""Changed entries of one table as columns: `TableChanges` without an object for each entry.

A table whose entries lie in columns gives them to the log in this form, and takes them back in it.
"""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike.state.table import TableSpec

__all__ = ["CLEAR", "DELETE", "PUT", "Changes", "ColumnChanges"]

PUT, DELETE, CLEAR = 0, 1, 2
"""The operations on an entry; `CLEAR` is one on all entries of a key."""


@attrs.frozen(eq=False)
class ColumnChanges:
    """Final states of the entries of a table that changed; the columns run in parallel.

    Args:
        spec: Declaration of the table.
        keys: An Arrow array of the key type.
        values: An Arrow array of the value type, null where the entry was deleted.
        user_keys: An Arrow array of the user keys' type, null where a key is cleared; None where
            there is one entry per key.
        stamps: A NumPy array of int64 in ms where entries are `paired`, else None.
        operations: A NumPy array of int8, or None where all were put.
    """

    spec: TableSpec
    keys: Any
    values: Any
    user_keys: Any = attrs.field(default=None, kw_only=True)
    stamps: Any = None
    operations: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: Any) -> ColumnChanges:
        """Return the changes for which a NumPy array of bools is true."""
        (rows,) = mask.nonzero()
        return attrs.evolve(
            self,
            keys=self.keys.take(rows),
            values=self.values.take(rows),
            user_keys=None if self.user_keys is None else self.user_keys.take(rows),
            stamps=None if self.stamps is None else self.stamps[rows],
            operations=None if self.operations is None else self.operations[rows],
        )


Changes = Any
"""`TableChanges`, or `ColumnChanges` of a table whose entries lie in columns."""
