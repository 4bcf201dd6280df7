# SPDX-License-Identifier: Apache-2.0
"""A recipe: two views served as one, which are replaced at once.

`lambda_merge.py` and `kappa_reprocess.py` use it; copy it, and change what your programs need.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pyflinklike.errors import StoreClosedError


class ServingView:
    """A batch view and a speed view, merged by key.

    Any number of threads may read while one swaps: a reader sees the old pair or the new one.

    Args:
        batch: The view of the events before a cut-off.
        speed: The view of the events since; None if there is only the batch view.
        merge: Takes the two rows of a key, the batch view's first, and returns the row to serve.
    """

    def __init__(self, batch: Any, speed: Any, merge: Callable[[Any, Any], Any]) -> None:
        self.layers, self.merge = (batch, speed), merge
        self.former: list[tuple[Any, Any]] = []
        """The pairs before the last swaps, which `rollback` serves again; close what you remove."""

    def get(self, key: Any) -> Any:
        """Return the served row of a key, or None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the served rows of those keys that have one, all from one pair of views."""
        wanted, served = list(keys), self.layers
        try:
            batch, speed = ({} if view is None else view.get_many(wanted) for view in served)
        except StoreClosedError:
            if served is self.layers:
                raise
            return self.get_many(wanted)  # a swap came between, and its old views are closed
        rows = {**batch, **speed}
        return {
            key: self.merge(batch[key], rows[key]) if key in batch and key in speed else rows[key]
            for key in rows
        }

    def swap(self, batch: Any, speed: Any) -> None:
        """Serve another pair from now on."""
        self.former.append(self.layers)
        self.layers = batch, speed

    def rollback(self) -> tuple[Any, Any]:
        """Serve the pair from before the last swap again, and return the one that is replaced."""
        replaced, self.layers = self.layers, self.former.pop()
        return replaced
