# SPDX-License-Identifier: Apache-2.0
"""A view as it was after a batch, read from the view's history."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any

from pyflinklike.errors import UnknownBatchError
from pyflinklike.views.core.keyed_rows import KeyedRows
from pyflinklike.views.core.reading import Reader, item
from pyflinklike.views.core.storage import AppliedBatch, Storage
from pyflinklike.views.core.where import Where

__all__ = ["ViewAt", "kept_batch"]


class ViewAt(Mapping[Any, Any]):
    """A view as it was after a batch: a read-only mapping from keys to rows.

    It holds no copy: each read goes to the view's storage, and raises an `UnknownBatchError` once
    the batch is older than the view's history.
    """

    def __init__(self, reader: Reader, batch_id: int) -> None:
        self._reader = reader
        self.batch_id = batch_id
        """The id of the batch."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the row that a key had, as `MaterializedView.get` does."""
        return self._reader.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return item(self._reader, key)

    def __contains__(self, key: object) -> bool:
        return self._reader.has(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._reader.pairs())

    def items(self) -> ItemsView[Any, Any]:
        """Read all keys and rows at once."""
        return self._reader.pairs().items()

    def values(self) -> ValuesView[Any]:
        """Read all rows at once."""
        return self._reader.pairs().values()

    def __len__(self) -> int:
        return self._reader.size()

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same keys and rows; keys are compared as in a view."""
        return self._reader.pairs() == (
            other._reader.pairs() if isinstance(other, ViewAt) else other
        )

    __hash__ = None  # type: ignore[assignment]

    def get_many(self, keys: Iterable[Any]) -> KeyedRows:
        """Return the rows that those keys had, as `MaterializedView.get_many` does."""
        return self._reader.get_many(keys)

    def query(
        self, where: Where = None, limit: int | None = None, allow_scan: bool = False
    ) -> list[Any]:
        """Return the rows that met a condition, as `MaterializedView.query` does."""
        return self._reader.query(where, limit, allow_scan=allow_scan)

    def __repr__(self) -> str:
        return f"ViewAt(batch_id={self.batch_id})"


def kept_batch(storage: Storage, view: str, batch_id: int, history: int) -> AppliedBatch:
    """Return the last batch of an id.

    Args:
        storage: The storage of the view.
        view: The name of the view, for messages.
        batch_id: The id that the caller asked for.
        history: The length of the view's history in batches, for messages.

    Raises:
        UnknownBatchError: No such batch was applied, or the history is too short for it.
    """
    with storage.reading() as snapshot:
        batch = snapshot.batch_of(batch_id)
        oldest, latest = snapshot.oldest_batch(), snapshot.latest_batch()
    if batch is not None:
        return batch
    kept = (
        "none"
        if oldest is None or latest is None
        else f"batches {oldest.batch_id} to {latest.batch_id}"
    )
    msg = f"view {view!r}: a batch must be kept to be asked for, got {batch_id} of {kept}"
    raise UnknownBatchError(f"{msg}; raise history above {history} to keep more")
