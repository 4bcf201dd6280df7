# SPDX-License-Identifier: Apache-2.0
"""A view as it was after a batch, read from the history that the view keeps."""

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

    It holds no copy: each read goes to where the view is kept, and raises an `UnknownBatchError` once
    the batch is older than the history that the view keeps.
    """

    def __init__(self, reader: Reader, batch_id: int) -> None:
        self._reader = reader
        self.batch_id = batch_id
        """The id of the batch."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The row that a key had, as `MaterializedView.get`."""
        return self._reader.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return item(self._reader, key)

    def __contains__(self, key: object) -> bool:
        return self._reader.has(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._reader.pairs())

    def items(self) -> ItemsView[Any, Any]:
        """All keys and rows, read at once."""
        return self._reader.pairs().items()

    def values(self) -> ValuesView[Any]:
        """All rows, read at once."""
        return self._reader.pairs().values()

    def __len__(self) -> int:
        return self._reader.size()

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same keys and rows; keys are compared as in a view."""
        return self._reader.pairs() == (
            other._reader.pairs() if isinstance(other, ViewAt) else other
        )

    __hash__ = None  # type: ignore[assignment]

    def get_many(self, keys: Iterable[Any]) -> KeyedRows:
        """The rows that those keys had, as `MaterializedView.get_many`."""
        return self._reader.get_many(keys)

    def query(
        self, where: Where = None, limit: int | None = None, allow_scan: bool = False
    ) -> list[Any]:
        """The rows that met a condition, as `MaterializedView.query`."""
        return self._reader.query(where, limit, allow_scan=allow_scan)

    def __repr__(self) -> str:
        return f"ViewAt(batch_id={self.batch_id})"


def kept_batch(storage: Storage, view: str, batch_id: int, history: int) -> AppliedBatch:
    """The last batch of an id.

    Args:
        storage: Of the view.
        view: Its name, for messages.
        batch_id: As the caller gave it.
        history: How many batches the view keeps, for messages.

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
