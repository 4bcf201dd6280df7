# SPDX-License-Identifier: Apache-2.0
"""What views are fed and told the time by."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Callable
from types import ModuleType
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


def ended_at(
    line: int, call: Callable[[], Any], modules: list[ModuleType], error: type[BaseException]
) -> bool:
    """Raise an error at so many lines of modules while a call runs; whether it came that far."""
    files, left = {module.__file__ for module in modules}, line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        # Python lets no signal in between the end of a with block and what releases it.
        if event == "line" and not text.lstrip().startswith("with "):
            left -= 1
            if left == 0:
                raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except error:
        return True
    finally:
        sys.settrace(before)
    return False
