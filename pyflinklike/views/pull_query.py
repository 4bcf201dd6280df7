# SPDX-License-Identifier: Apache-2.0
"""Pull queries: the rows of a view, now or as of a batch in its history.

Each query reads in one transaction, so it sees whole batches.  A look-up by key is always
allowed.  Any other query reads the whole view, and needs `allow_scan=True`, as pull queries of ksqlDB need a
setting for it.

1, 1.0 and True are three keys of a view, while a dict would take them for one.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any

from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import (
    ScanDisabledError,
    StateValueError,
    UnknownBatchError,
    UserFunctionError,
)
from pyflinklike.views.arguments import check_limit
from pyflinklike.views.condition import Condition, Where
from pyflinklike.views.row_codec import Failure, decode_row, from_key_bytes, to_key_bytes
from pyflinklike.views.subscription import make_decode_error
from pyflinklike.views.view_storage import AppliedBatch, Snapshot, ViewStorage

__all__ = ["KeyedRows", "PullQuery", "ViewAt", "read_batch"]


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
            latest = snapshot.latest_batch()
            return 0 if latest is None else latest.size

    def _pairs(self) -> KeyedRows:
        """Return all keys and their rows."""
        with self._storage.lend_reader() as snapshot:
            found = [(key, decode_row(row)) for key, row in self._scan(snapshot)]
        return KeyedRows((key, self._check(key, value)) for key, value in found)

    def _rows_of(self, snapshot: Snapshot, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        if self._seq is None:
            return snapshot.rows_of(keys)
        return snapshot.rows_of_at(keys, self._batch(snapshot).seq)

    def _scan(self, snapshot: Snapshot) -> Iterator[tuple[Any, bytes]]:
        if self._seq is None:
            found = snapshot.rows()
        else:
            found = snapshot.rows_at_seq(self._batch(snapshot).seq)
        return ((from_key_bytes(key), row) for key, row in found)

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
            raise make_decode_error(key, value)
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


def read_batch(storage: ViewStorage, view: str, batch_id: int, history: int) -> AppliedBatch:
    """Return the last batch of an id.

    Args:
        storage: The storage of the view.
        view: The name of the view, for messages.
        batch_id: The id that the caller asked for.
        history: The length of the view's history in batches, for messages.

    Raises:
        UnknownBatchError: No such batch was applied, or the history is too short for it.
    """
    with storage.lend_reader() as snapshot:
        batch = snapshot.batch_of(batch_id)
        oldest, latest = snapshot.oldest_batch(), snapshot.latest_batch()
    if batch is not None:
        return batch
    stored = (
        "none"
        if oldest is None or latest is None
        else f"batches {oldest.batch_id} to {latest.batch_id}"
    )
    msg = f"view {view!r}: the batch must be in the history, got {batch_id}, and the history has {stored}"
    raise UnknownBatchError(f"{msg}; raise history above {history} to keep more")


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
