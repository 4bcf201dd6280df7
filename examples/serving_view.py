# SPDX-License-Identifier: Apache-2.0
"""A class to copy: it serves two views as one, and replaces both at once.

`lambda_merge.py` and `kappa_reprocess.py` use it.  Copy it, and adapt it to your program.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pyflinklike.errors import StoreClosedError


class ServingView:
    """A batch view and a speed view, merged by key.

    Many threads may read while one swaps: each read uses the old pair or the new one.

    Args:
        batch: The view of the events before a cut-off.
        speed: The view of the events after it; None if there is only the batch view.
        merge: Takes the two rows of a key, the batch view's first, and returns the row to serve.
    """

    def __init__(self, batch: Any, speed: Any, merge: Callable[[Any, Any], Any]) -> None:
        self.layers, self.merge = (batch, speed), merge
        self.former: list[tuple[Any, Any]] = []
        """The replaced pairs, which `rollback` can serve again; close those that you remove."""

    def get(self, key: Any) -> Any:
        """Return the served row of a key, or None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the rows of the keys that have one, all from one pair of views."""
        wanted, served = list(keys), self.layers
        try:
            batch, speed = ({} if view is None else view.get_many(wanted) for view in served)
        except StoreClosedError:
            if served is self.layers:
                raise
            return self.get_many(wanted)  # a swap came in between, and the old views are closed
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
        """Serve the pair from before the last swap again, and return the current one."""
        replaced, self.layers = self.layers, self.former.pop()
        return replaced
