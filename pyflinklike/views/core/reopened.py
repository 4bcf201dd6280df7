# SPDX-License-Identifier: Apache-2.0
"""Views in another process: pickled as their arguments, and opened again where they are unpickled.

Over Spark Connect the function of `foreachBatch` is pickled to a Python process of the server, and
a view that it holds must get there.  An open table cannot be pickled, but the arguments that open
it can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyflinklike.views.core.served_stream import SERVED

__all__ = ["Reopened"]

_View = TypeVar("_View", bound="Reopened")


class Reopened:
    """An object that is pickled as the arguments of its constructor.

    A `path` among them becomes absolute: the other process may be in another directory.
    """

    _made_with: partial[Any]

    def __new__(cls: type[_View], *args: Any, **named: Any) -> _View:
        """Remember the arguments, which `__init__` then checks."""
        made = super().__new__(cls)
        if isinstance(named.get("path"), (str, Path)):
            named["path"] = Path(named["path"]).absolute()
        made._made_with = partial(cls, *args, **named)
        return made

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any]]:
        return _reopened, (self._made_with,)


def _reopened(made_with: partial[Any]) -> Any:
    SERVED.remember_session()
    return made_with()
