# SPDX-License-Identifier: Apache-2.0
"""`ServingView`: the serving layer of a Lambda architecture, and the switch of a Kappa one.

A batch view knows all events before a cut-off, a speed view those since.  What is served is
both merged.  When a later batch is ready, the pair is replaced at once: a reader sees the old
pair or the new one, never a batch view beside a speed view that begins somewhere else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from pyflinklike.errors import DeclarationTypeError, StateStoreError, StoreClosedError
from pyflinklike.views.keyed_rows import KeyedRows

__all__ = ["Layers", "ServingView"]


class _Layer(Protocol):
    def get(self, key: Any, default: Any = None, /) -> Any: ...


class Layers(NamedTuple):
    """The two views that are served as one.

    Args:
        batch: Of the events before a cut-off.
        speed: Of those since; None where the batch view is all there is.
    """

    batch: Any
    speed: Any


_NONE = object()


class ServingView:
    """Two views, merged by key.

    Any number of threads may read beside one that swaps.

    Args:
        batch: The batch view: a `MaterializedView`, a `ViewAt`, a mapping, or whatever has `get`.
        speed: The speed view, likewise; None where there is none.
        merge: From a row of the batch view and one of the speed view for the same key to what
            is served.  It is called where both have one; where one has, that is served.

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
        self._layers = _checked(batch, speed)
        self._former: list[Layers] = []
        self._swapping = threading.Lock()

    @property
    def layers(self) -> Layers:
        """The pair that is served now."""
        return self._layers

    def get(self, key: Any, default: Any = None) -> Any:
        """What is served for a key; the default where neither view has a row."""
        return self.get_many([key]).get(key, default)

    def __getitem__(self, key: Any) -> Any:
        """What is served for a key; a KeyError where neither view has a row."""
        found = self.get_many([key])
        if not found:
            raise KeyError(key)
        return found[key]

    def get_many(self, keys: Iterable[Any]) -> Mapping[Any, Any]:
        """What is served for those keys that have a row, all from one pair of views.

        Each view is read once, at one moment of its own.
        """
        wanted = list(keys)
        while True:
            layers = self._layers
            try:
                return self._merged(wanted, layers)
            except StoreClosedError:
                # Whoever swapped may close the views of before while we read them.
                if layers is self._layers:
                    raise

    def swap(self, batch: _Layer, speed: _Layer | None) -> None:
        """Serve another pair from now on; the one of now is kept for `rollback`.

        Raises:
            DeclarationTypeError: A view has no `get`; nothing changed.
        """
        layers = _checked(batch, speed)
        with self._swapping:
            self._former.append(self._layers)
            self._layers = layers

    def rollback(self) -> Layers:
        """Serve the pair from before the last swap again; once for each swap.

        Returns:
            The pair that is served no more, for the caller to close or mend.

        Raises:
            StateStoreError: There is none before.
        """
        with self._swapping:
            if not self._former:
                msg = "a rollback needs a swap before it, got none that is not rolled back; swap first"
                raise StateStoreError(msg)
            dropped, self._layers = self._layers, self._former.pop()
            return dropped

    def forget(self) -> list[Layers]:
        """Give up the pairs from before, the oldest first, for the caller to close."""
        with self._swapping:
            former, self._former = self._former, []
            return former

    def _merged(self, keys: list[Any], layers: Layers) -> KeyedRows:
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


def _checked(batch: Any, speed: Any) -> Layers:
    for name, view in (("batch", batch), ("speed", speed)):
        if not hasattr(view, "get") and not (name == "speed" and view is None):
            msg = f"the {name} view must have get(key), got {view!r}; give a MaterializedView"
            raise DeclarationTypeError(msg)
    return Layers(batch, speed)
