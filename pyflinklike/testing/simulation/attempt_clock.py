# SPDX-License-Identifier: Apache-2.0
"""The wall clock as attempts of tasks read it: each of them runs at another time.

On a cluster an attempt is repeated minutes after the first one, or in a new year; here all attempts
run within seconds.  That alone shows a function that reads the clock to the microsecond, but none
that asks for the hour or the day.  So while user functions are simulated, the clock that *their*
code reads is moved for each attempt, by up to a year: `time.time` and its like, and the names
`datetime` and `date` in the modules of the user's code.  Everything is put back at the end.

Not moved are clocks that are read by C code of others (`pandas.Timestamp.now()`), by modules that a
function imports within itself, and `time.monotonic`.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final
from zlib import crc32

__all__ = ["CLOCK", "AttemptClock", "move_clocks"]

_YEAR: Final = 365 * 24 * 3600
_MODULE: Final = "simulated_datetime"


class AttemptClock:
    """The clock that user code reads.

    Attributes:
        offset: How far it is ahead, in seconds.
        stands_at: Where it stands still, in seconds since 1970; None for a clock that runs.
    """

    def __init__(self) -> None:
        self.offset = 0.0
        self.stands_at: float | None = None

    def move_for(self, attempt: str) -> None:
        """Move it for an attempt of this name."""
        self.offset = float(3600 + crc32(attempt.encode()) % _YEAR)

    def time(self) -> float:
        """Return the time in seconds since 1970."""
        return (_TIME() if self.stands_at is None else self.stands_at) + self.offset


CLOCK: Final = AttemptClock()
_TIME: Final = time.time


class _SameInstances(type):
    """Has the instances and subclasses of the class that it stands for."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


class _Datetime(dt.datetime, metaclass=_SameInstances):
    """`datetime.datetime`, by the clock of the attempt; it makes plain datetimes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return dt.datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return dt.datetime.fromtimestamp(CLOCK.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return dt.datetime.fromtimestamp(CLOCK.time(), dt.timezone.utc).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


class _Date(dt.date, metaclass=_SameInstances):
    """`datetime.date`, by the clock of the attempt; it makes plain dates."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return dt.date(*args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        return dt.date.fromtimestamp(CLOCK.time())


def _by_clock(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the module `time` that reads the clock of the attempt."""
    if name == "time":
        return CLOCK.time
    if name == "time_ns":
        return lambda: int(CLOCK.time() * 1_000_000_000)
    if name == "strftime":
        return lambda form, t=None: real(form, time.localtime() if t is None else t)
    return lambda secs=None: real(CLOCK.time() if secs is None else secs)


@contextmanager
def move_clocks(namespaces: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Have user code read `CLOCK`.

    Args:
        namespaces: The global names of its modules.
    """
    names = ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime")
    moved = {name: _by_clock(name, getattr(time, name)) for name in names}
    module = ModuleType(_MODULE)
    vars(module).update({**vars(dt), "__name__": _MODULE, "datetime": _Datetime, "date": _Date})
    instead: dict[int, Any] = {id(getattr(time, name)): each for name, each in moved.items()}
    instead |= {id(dt): module, id(dt.datetime): _Datetime, id(dt.date): _Date}
    changes = [
        (known, name, value, instead[id(value)])
        for known in (vars(time), *namespaces)
        for name, value in list(known.items())
        if id(value) in instead
    ]
    # `cloudpickle` takes a module along by its name.
    sys.modules[_MODULE] = module
    try:
        for known, name, _, new in changes:
            known[name] = new
        yield
    finally:
        for known, name, former, _ in changes:
            known[name] = former
        del sys.modules[_MODULE]
        CLOCK.offset, CLOCK.stands_at = 0.0, None
