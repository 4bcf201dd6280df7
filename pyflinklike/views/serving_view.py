# SPDX-License-Identifier: Apache-2.0
"""The serving layer of a Lambda architecture, and the switch of a Kappa one.

A batch view has all events before a cut-off, a speed view the events since.  Both are served
merged.  When the next batch is ready, the pair is replaced at once: a reader sees the old pair or
the new one, never a batch view with a speed view that begins at another cut-off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from pyflinklike.errors import DeclarationTypeError, StateStoreError, StoreClosedError
from pyflinklike.views.pull_query import KeyedRows

__all__ = ["Layers", "ServingView"]


class _Layer(Protocol):
    def get(self, key: Any, default: Any = None, /) -> Any: ...


class Layers(NamedTuple):
    """The two views that are served as one.

    Args:
        batch: The view of the events before a cut-off.
        speed: The view of the events since; None if there is only the batch view.
    """

    batch: Any
    speed: Any


_NONE = object()


class ServingView:
    """Two views, merged by key.

    Any number of threads may read while another one swaps.

    Args:
        batch: The batch view: a `MaterializedView`, a `ViewAt`, a mapping, or anything with `get`.
        speed: The speed view, likewise; None if there is none.
        merge: Takes the two rows of a key, the batch view's first, and returns the row to serve.
            If only one view has a row, that row is served.

    Raises:
        DeclarationTypeError: `merge` is not callable, or a view has no `get`.
    """

    def __init__(
        self, batch: _Layer, speed: _Layer | None, *, merge: Callable[[Any, Any], Any]
    ) -> None:
        if not callable(merge):
            msg = f"merge must be a callable of two rows, got {merge!r}; for example operator.add"
            raise DeclarationTypeError(msg)
        self._merge = merge
        self._layers = _check_layers(batch, speed)
        self._former: list[Layers] = []
        self._swapping = threading.Lock()

    @property
    def layers(self) -> Layers:
        """The pair that is served now."""
        return self._layers

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the served row of a key; the default if neither view has one."""
        return self.get_many([key]).get(key, default)

    def __getitem__(self, key: Any) -> Any:
        """Return the served row of a key; raise a KeyError if neither view has one."""
        found = self.get_many([key])
        if not found:
            raise KeyError(key)
        return found[key]

    def get_many(self, keys: Iterable[Any]) -> Mapping[Any, Any]:
        """Return the served rows of those keys that have one, all from one pair of views.

        Each view is read once, in one transaction.
        """
        wanted = list(keys)
        while True:
            layers = self._layers
            try:
                return self._merge_layers(wanted, layers)
            except StoreClosedError:
                # After a swap the old views may be closed while we still read them.
                if layers is self._layers:
                    raise

    def swap(self, batch: _Layer, speed: _Layer | None) -> None:
        """Serve another pair from now on, and remember the current one for `rollback`.

        Raises:
            DeclarationTypeError: A view has no `get`; nothing changed.
        """
        layers = _check_layers(batch, speed)
        with self._swapping:
            self._former.append(self._layers)
            self._layers = layers

    def rollback(self) -> Layers:
        """Serve the pair from before the last swap again; each swap can be rolled back once.

        Returns:
            The pair that is no longer served, for the caller to close.

        Raises:
            StateStoreError: There was no swap, or all are rolled back.
        """
        with self._swapping:
            if not self._former:
                msg = "a rollback needs a swap before it, got none that is not rolled back; swap first"
                raise StateStoreError(msg)
            dropped, self._layers = self._layers, self._former.pop()
            return dropped

    def forget(self) -> list[Layers]:
        """Forget all former pairs; return them, the oldest first, for the caller to close."""
        with self._swapping:
            former, self._former = self._former, []
            return former

    def _merge_layers(self, keys: list[Any], layers: Layers) -> KeyedRows:
        batch, speed = _rows(layers.batch, keys), _rows(layers.speed, keys)
        merged: list[tuple[Any, Any]] = []
        for key in keys:
            if key in batch and key in speed:
                merged.append((key, self._merge(batch[key], speed[key])))
            elif key in batch or key in speed:
                merged.append((key, batch[key] if key in batch else speed[key]))
        return KeyedRows(merged)

    def __repr__(self) -> str:
        return f"ServingView(batch={self._layers.batch!r}, speed={self._layers.speed!r})"


def _rows(view: Any, keys: list[Any]) -> Mapping[Any, Any]:
    if view is None:
        return {}
    if hasattr(view, "get_many"):
        found: Mapping[Any, Any] = view.get_many(keys)
        return found
    rows = ((key, view.get(key, _NONE)) for key in keys)
    return KeyedRows((key, row) for key, row in rows if row is not _NONE)


def _check_layers(batch: Any, speed: Any) -> Layers:
    for name, view in (("batch", batch), ("speed", speed)):
        if not hasattr(view, "get") and not (name == "speed" and view is None):
            msg = f"the {name} view must have get(key), got {view!r}; give a MaterializedView"
            raise DeclarationTypeError(msg)
    return Layers(batch, speed)
