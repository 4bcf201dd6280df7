# SPDX-License-Identifier: Apache-2.0
"""Conditions: the `where` of a query or a subscription.

`where` is None for all rows, a callable of the row, or a mapping from columns to conditions: a value, a
list or set of values (IN), or a callable of the column.  A mapping with values for all key columns
is a look-up of keys; its other conditions are checked for the rows that are found, as in ksqlDB's
pull queries.  Everything else is a scan.

Key columns are compared encoded: 1, 1.0 and True are three keys, in a look-up as in a scan.  Other
columns are compared as Python does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.types.row import names_of
from pyflinklike.views.incoming_rows import column_of
from pyflinklike.views.row_codec import Failure, part_form

__all__ = ["Condition", "Where"]

Where = Union[Mapping[str, Any], Callable[[Any], Any], None]
"""The forms of the argument `where`."""


class Condition:
    """A condition for rows.

    Args:
        where: The argument that the user has passed.
        key_columns: The key columns of the view.

    Raises:
        DeclarationTypeError: `where` is neither None, a mapping of columns nor callable.
        StateValueError: A value for a key column cannot be part of a key.
    """

    def __init__(self, where: Where, key_columns: Sequence[str]) -> None:
        is_mapping = isinstance(where, Mapping) and all(isinstance(name, str) for name in where)
        if where is not None and not is_mapping and not callable(where):
            msg = (
                "where must be a mapping of columns to values, a callable of the row, or None, "
                f"got {short_repr(where)}; for example {{{key_columns[0]!r}: 'a'}}"
            )
            raise DeclarationTypeError(msg)
        self._key_columns = tuple(key_columns)
        self._of_row = where if callable(where) else None
        of_columns = dict(where) if isinstance(where, Mapping) else {}
        self.unseen = of_columns.keys() - set(key_columns)
        """The columns in the condition that were in no row so far."""
        self._keys = {
            name: {part_form(each): each for each in _choices(wanted)}
            for name, wanted in of_columns.items()
            if name in self._key_columns and not callable(wanted)
        }
        self._of_columns = {
            name: wanted for name, wanted in of_columns.items() if name not in self._keys
        }

    def keys(self) -> list[Any] | None:
        """Return the keys to look up, each once; None if only a scan can find the rows."""
        if any(name not in self._keys for name in self._key_columns):
            return None
        keys = itertools.product(*(self._keys[name].values() for name in self._key_columns))
        return [key if len(key) > 1 else key[0] for key in keys]

    def is_met(self, key: Any, row: Any) -> bool:
        """Return whether a row meets the condition.

        Args:
            key: The key of the row, decoded.
            row: The row as it was put in.  A `Failure` meets no condition but None.  A column that
                the row does not have is None, as after SQL's ADD COLUMN.
        """
        if isinstance(row, Failure):
            return self._of_row is None and not self._of_columns and not self._keys
        if self._of_row is not None:
            return bool(self._of_row(row))
        if self.unseen:
            self.unseen = self.unseen.difference(names_of(row) or ())
        return all(
            part_form(self._column(key, row, name)) in wanted for name, wanted in self._keys.items()
        ) and all(
            _is_met(wanted, self._column(key, row, name))
            for name, wanted in self._of_columns.items()
        )

    def _column(self, key: Any, row: Any, name: str) -> Any:
        if name in self._key_columns:  # the row of a change need not have its key
            if len(self._key_columns) == 1:
                return key
            return key[self._key_columns.index(name)]
        return column_of(row, name) if name in (names_of(row) or ()) else None


def _choices(wanted: Any) -> Iterable[Any]:
    return wanted if isinstance(wanted, (list, set, frozenset)) else [wanted]


def _is_met(wanted: Any, value: Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, (list, set, frozenset)):
        return any(_is_met(one, value) for one in wanted)
    return bool(wanted == value)
