# SPDX-License-Identifier: Apache-2.0
"""What views are fed and told the time by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyflinklike import Row


class Time:
    """A clock that is set by assignment."""

    now = 1_000

    def __call__(self) -> int:
        return self.now


def change(op: str, key: Any, value: Any, diff: int | None = None, **more: Any) -> Row:
    """A row as `UpsertFunction` yields it."""
    diff = diff or (1 if op in ("insert", "update_after") else -1)
    return Row(key=key, op=op, value=value, diff=diff, **more)


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for a sign of another thread, so long at most."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            msg = f"not so after {seconds} s"
            raise TimeoutError(msg)
        time.sleep(0.001)
