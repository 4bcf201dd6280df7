# SPDX-License-Identifier: Apache-2.0
"""Pull queries: the rows of a view, now or as of a batch in its history, and conditions for rows.

Each query reads in one transaction, so it sees whole batches.  A look-up by key is always
allowed.  Any other query reads the whole view, and needs `allow_scan=True`, as pull queries of ksqlDB need a
setting for it.

1, 1.0 and True are three keys of a view, while a dict would take them for one.
"""

from __future__ import annotations

import itertools
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from typing import Any, Union

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    ScanDisabledError,
    StateValueError,
    UnknownBatchError,
    UserFunctionError,
)
from pyflinklike.types.row import names_of
from pyflinklike.views.incoming_rows import column_of
from pyflinklike.views.row_codec import (
    Failure,
    decode_row,
    from_key_bytes,
    part_form,
    to_key_bytes,
)
from pyflinklike.views.view_storage import NO_BATCH, AppliedBatch, Snapshot, ViewStorage

_NONE = object()


class PullQuery:
    """The pull queries of a view: the base class of `View` and of `ViewAt`.

    Args:
        storage: The storage of the view.
        name: The name of the view, for messages.
        key_columns: The columns that make the key.
        seq: The number of the batch after which the view is read; None for now.
    """

    def __init__(
        self, storage: ViewStorage, name: str, key_columns: tuple[str, ...], seq: int | None = None
    ) -> None:
        self._storage = storage
        self.name = name
        self.key_columns = key_columns
        self._seq = seq

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the row of a key as it was put in; the default if the key has no row.

        Raises:
            StateValueError: The key is None, or cannot be a key.
            ValueDecodeError: The feed has an error in the place of the row.
        """
        data = to_key_bytes(key)
        with self._storage.lend_reader() as snapshot:
            row = self._rows_of(snapshot, [data]).get(data)
        return default if row is None else self._check(key, decode_row(row))

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key; raise a KeyError if the key has no row."""
        found = self.get(key, _NONE)
        if found is _NONE:
            raise KeyError(key)
        return found

    def get_many(self, keys: Iterable[Any]) -> Mapping[Any, Any]:
        """Return the rows of those keys that have one, all from the same moment.

        Keys are compared as in the view: 1, 1.0 and True are three keys.
        """
        wanted = [(key, to_key_bytes(key)) for key in keys]
        with self._storage.lend_reader() as snapshot:
            found = self._rows_of(snapshot, {data for _, data in wanted})
        return KeyedRows(
            (key, self._check(key, decode_row(found[data])))
            for key, data in wanted
            if data in found
        )

    def query(
        self, where: Where = None, limit: int | None = None, allow_scan: bool = False
    ) -> list[Any]:
        """Return the rows that meet a condition, all from the same moment.

        Args:
            where: A mapping from columns to conditions (a value, a list or set of values, or a
                callable of the column), a callable of the row, or None for all rows.
            limit: The greatest number of rows to return; None for all.
            allow_scan: True permits a read of the whole view.  A mapping with values for all key
                columns needs no scan.

        Raises:
            ScanDisabledError: The query needs a scan, and `allow_scan` is False.
            StateValueError: No row that was read has a column of that name.
            ValueDecodeError: The feed has an error in the place of a row that meets the condition.
        """
        condition = Condition(where, self.key_columns)
        check_limit(limit)
        keys = condition.keys()
        if keys is None and not allow_scan:
            raise self._scan_needed(where)
        found: list[Any] = []
        read = 0
        with self._storage.lend_reader() as snapshot:
            for key, row in self._scan(snapshot) if keys is None else self._some(snapshot, keys):
                if len(found) == limit:
                    break
                read += 1
                value = decode_row(row)
                if self._is_met(condition, key, value):
                    found.append(self._check(key, value))
        if read and condition.unseen:
            unknown = min(condition.unseen)
            msg = f"view {self.name!r}: a column must be in some row, got {unknown!r} in where={short_repr(where)}"
            raise StateValueError(f"{msg}; no row has it")
        return found

    def _scan_needed(self, where: Where) -> ScanDisabledError:
        return ScanDisabledError(
            f"view {self.name!r}: a query must give a value for each key column "
            f"{list(self.key_columns)}, got where={short_repr(where)}; give them, or allow_scan=True "
            "to read the whole view"
        )

    def __contains__(self, key: object) -> bool:
        data = to_key_bytes(key)
        with self._storage.lend_reader() as snapshot:
            return data in self._rows_of(snapshot, [data])

    def __len__(self) -> int:
        with self._storage.lend_reader() as snapshot:
            if self._seq is not None:
                return self._batch(snapshot).size
            return (snapshot.latest_batch() or NO_BATCH).size

    def _pairs(self) -> KeyedRows:
        """Return all keys and their rows."""
        with self._storage.lend_reader() as snapshot:
            found = [(key, decode_row(row)) for key, row in self._scan(snapshot)]
        return KeyedRows((key, self._check(key, value)) for key, value in found)

    def _rows_of(self, snapshot: Snapshot, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        return snapshot.rows_of(keys, self._checked_seq(snapshot))

    def _scan(self, snapshot: Snapshot) -> Iterator[tuple[Any, bytes]]:
        found = snapshot.rows(self._checked_seq(snapshot))
        return ((from_key_bytes(key), row) for key, row in found)

    def _checked_seq(self, snapshot: Snapshot) -> int | None:
        return None if self._seq is None else self._batch(snapshot).seq

    def _some(self, snapshot: Snapshot, keys: Iterable[Any]) -> Iterator[tuple[Any, bytes]]:
        wanted = [(key, to_key_bytes(key)) for key in keys]
        found = self._rows_of(snapshot, [data for _, data in wanted])
        return ((key, found[data]) for key, data in wanted if data in found)

    def _batch(self, snapshot: Snapshot) -> AppliedBatch:
        """Return the batch after which the view is read.

        Raises:
            UnknownBatchError: The history has dropped the batch.
        """
        found = snapshot.batch_numbered(self._seq or 0)
        if found is None:
            msg = f"view {self.name!r}: the batch must be in the history, got one that is too old for it"
            raise UnknownBatchError(f"{msg}; raise history")
        return found

    def _is_met(self, condition: Condition, key: Any, value: Any) -> bool:
        try:
            return condition.is_met(key, value)
        except self._storage.fault as error:  # raised by the caller's own database, not by the view
            msg = f"the condition of a query must take every row, got {shown_error(error)}; mend it"
            raise UserFunctionError(msg) from error

    def _check(self, key: Any, value: Any) -> Any:
        if isinstance(value, Failure):
            raise value.make_error(key)
        return value


class ViewAt(PullQuery, Mapping[Any, Any]):
    """A view as it was after a batch: a read-only mapping from keys to rows.

    It holds no copy: each read goes to the view's storage, and raises an `UnknownBatchError` once
    the batch is older than the view's history.

    Args:
        view: The view whose past is read.
        seq: The number of the batch among the applied batches.
        batch_id: The id of the batch.
    """

    def __init__(self, view: PullQuery, seq: int, batch_id: int) -> None:
        super().__init__(view._storage, view.name, view.key_columns, seq)
        self.batch_id = batch_id
        """The id of the batch."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pairs())

    def items(self) -> ItemsView[Any, Any]:
        """Read all keys and rows at once."""
        return self._pairs().items()

    def values(self) -> ValuesView[Any]:
        """Read all rows at once."""
        return self._pairs().values()

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same keys and rows; keys are compared as in a view."""
        return self._pairs() == (other._pairs() if isinstance(other, ViewAt) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ViewAt(batch_id={self.batch_id})"


class KeyedRows(Mapping[Any, Any]):
    """A read-only mapping from keys to rows that distinguishes keys as a view does.

    Args:
        pairs: Keys and rows; if a key comes twice, its last row counts.
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._pairs = {_form(key): (key, row) for key, row in pairs}

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key; raise a KeyError if the key has no row."""
        try:
            return self._pairs[_form(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a mapping with the same keys and rows."""
        if isinstance(other, KeyedRows):
            mine = {form: row for form, (_, row) in self._pairs.items()}
            return mine == {form: row for form, (_, row) in other._pairs.items()}
        return (
            len(self) == len(other) and super().__eq__(other)
            if isinstance(other, Mapping)
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {row!r}" for key, row in self._pairs.values()) + "}"


def _form(key: Any) -> Any:
    """Return the encoded key; if a view cannot have the key, the key itself."""
    try:
        return to_key_bytes(key)
    except StateValueError:
        return key


# Conditions: the `where` of a query or a subscription
#
# `where` is None for all rows, a callable of the row, or a mapping from columns to conditions: a value, a
# list or set of values (IN), or a callable of the column.  A mapping with values for all key columns
# is a look-up of keys; its other conditions are checked for the rows that are found, as in ksqlDB's
# pull queries.  Everything else is a scan.
#
# Key columns are compared encoded: 1, 1.0 and True are three keys, in a look-up as in a scan.  Other
# columns are compared as Python does.


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


def check_limit(limit: Any) -> None:
    """Refuse a limit that is no number of rows or changes.

    Raises:
        DeclarationTypeError: The limit is neither None nor an int.
        DeclarationValueError: The limit is negative.
    """
    if limit is None:
        return
    if not is_int(limit):
        msg = f"limit must be an int or None, got {short_repr(limit)}; None returns all"
        raise DeclarationTypeError(msg)
    if limit < 0:
        msg = f"limit must not be negative, got {short_repr(limit)}; None returns all"
        raise DeclarationValueError(msg)
