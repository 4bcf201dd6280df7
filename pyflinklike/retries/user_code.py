# SPDX-License-Identifier: Apache-2.0
"""User code besides its records and its state: kept values, the clock, random numbers, lost changes.

A function that keeps values, reads the clock or draws random numbers may give other results at a
retry.  This module finds and controls these inputs.

`UserCode` finds the user's code that a function reaches: the classes of the function and of its
attributes, the names in their methods, the contents of closures and default arguments, and so on.
It stops at the standard library, at installed packages and at pyflinklike.

`move_clocks` gives this code a clock that a test moves: it replaces `time.time` and similar
functions, and the names `datetime` and `date`.  It does not move clocks that C code of other
packages reads (`pandas.Timestamp.now()`), nor `time.monotonic`.  `use_random_seed` seeds the
generators.  Both restore everything at the end.

`ValueWatch` finds changes that are lost in every run alike, so that comparing runs does not show
them.  A function that reads a value from state gets a copy, and a change of the copy is lost unless
the function writes it back.  So the watch copies each value when it is read, and compares the two
after the call.
"""

from __future__ import annotations

import datetime as dt
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final
from unittest import mock

import cloudpickle

from pyflinklike._messages import short_repr
from pyflinklike.state.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)

_INSTALLED: Final = ("site-packages", "dist-packages")
_LIBRARIES: Final = frozenset({"pyflinklike", "pyspark", "pyarrow", "numpy", "pandas"})
_PLAIN: Final = (str, bytes, int, float, type(None))
_TIME, _STRFTIME = time.time, time.strftime


class UserCode:
    """The user's code that some objects reach, and the values that it keeps outside of state.

    Args:
        *subjects: Functions of operators, or anything that they refer to.
    """

    def __init__(self, *subjects: Any) -> None:
        self._seen: dict[int, Any] = {}
        waiting = list(subjects)
        while waiting:
            subject = waiting.pop()
            if id(subject) not in self._seen and not isinstance(subject, _PLAIN):
                self._seen[id(subject)] = subject  # a reference, so that no other gets its id
                waiting += [value for _, value in _held(subject)]

    @property
    def functions(self) -> list[FunctionType]:
        """The functions of the user."""
        return [each for each in self._seen.values() if isinstance(each, FunctionType)]

    @property
    def names(self) -> set[str]:
        """The names that the code uses, including names of attributes."""
        return {name for each in self.functions for name in _names(each.__code__)}

    def namespaces(self) -> list[dict[str, Any]]:
        """Return the global names of the functions, and of all modules of the user."""
        modules = [vars(each) for each in list(sys.modules.values()) if _is_users(each)]
        found = [*(each.__globals__ for each in self.functions), *modules]
        return list({id(each): each for each in found}.values())

    def digest_kept(self) -> dict[str, bytes | str]:
        """Return a digest of each value that is kept outside of state, by its name for users."""
        held = (pair for each in list(self._seen.values()) for pair in _held(each))
        return {name: _digest(value) for name, value in held if name and _is_data(value)}


def _held(subject: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that a subject refers to, each with a name if it may be a kept value."""
    if isinstance(subject, FunctionType):
        yield from _held_by_function(subject)
    elif isinstance(subject, type):
        for cls in filter(_is_users, subject.__mro__):
            for name, value in list(vars(cls).items()):
                yield f"`{cls.__name__}.{name}`, an attribute of the class,", value
    elif isinstance(subject, (Mapping, list, tuple, set, frozenset)):
        inner = subject.values() if isinstance(subject, Mapping) else subject
        yield from (("", each) for each in list(inner))
    elif not isinstance(subject, ModuleType):
        own = _is_users(type(subject))
        if own or type(subject).__module__.partition(".")[0] in ("pyflinklike", "functools"):
            yield "", type(subject)
            for name, value in _attributes(subject).items():
                yield f"`self.{name}` of {type(subject).__name__}" if own else "", value
        for name in ("__func__", "fget", "func"):  # methods, properties, partial functions
            yield "", getattr(subject, name, None)


def _attributes(subject: Any) -> dict[str, Any]:
    slots = [vars(cls).get("__slots__", ()) for cls in type(subject).__mro__]
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    found = {name: getattr(subject, name) for name in names if hasattr(subject, name)}
    return {**found, **getattr(subject, "__dict__", {})}


def _held_by_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code, known = function.__code__, function.__globals__
    for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):  # the variable has no value yet
            yield f"`{variable}`, a variable around {function.__name__},", cell.cell_contents
    if _is_users(function):
        for name in sorted(_names(code) & known.keys()):
            yield f"`{name}`, a global name,", known[name]
        for at, value in enumerate(function.__defaults__ or (), 1):
            yield f"default {at} of the arguments of {function.__name__}", value


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names, *(name for each in inner for name in _names(each))}


def _is_users(subject: Any) -> bool:
    """Return whether a module, a class or a function is the user's."""
    name = subject.__name__ if isinstance(subject, ModuleType) else subject.__module__
    root = str(name).partition(".")[0]
    if root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__"):
        return False
    file = str(getattr(sys.modules.get(name), "__file__", None) or "")
    return not any(each in file for each in _INSTALLED)


def _is_data(value: Any) -> bool:
    if isinstance(value, (ModuleType, FunctionType, type, property, staticmethod, classmethod)):
        return False
    return type(value).__module__.partition(".")[0] != "pyflinklike"


def _digest(value: Any) -> bytes | str:
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    try:
        return dumps(value)
    except Exception:  # such as for a lock, a connection, or a state within a list
        return repr(value)


# The clock


class _Clock:
    """The clock that user code reads.

    Attributes:
        offset: How far the clock is ahead, in seconds.
        stands_at: The time at which it stands still, in seconds since 1970.  None if it runs.
    """

    offset = 0.0
    stands_at: float | None = None

    def reset(self) -> None:
        """Run, and on time."""
        self.offset, self.stands_at = 0.0, None

    def time(self) -> float:
        """Return the time in seconds since 1970."""
        return (_TIME() if self.stands_at is None else self.stands_at) + self.offset


CLOCK: Final = _Clock()


class _SameInstances(type):
    """Metaclass of a stand-in that takes the original's instances and subclasses for its own."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


def _stand_in(real: type, **methods: Callable[..., Any]) -> type:
    """Make a class with these class methods that makes instances of the real one."""
    own = {name: classmethod(each) for name, each in methods.items()}
    own_new = {"__new__": lambda _, *args, **kwargs: real(*args, **kwargs)}
    return _SameInstances(real.__name__, (real,), {**own, **own_new})


_DATETIME: Final = _stand_in(
    dt.datetime,
    now=lambda _, tz=None: dt.datetime.fromtimestamp(CLOCK.time(), tz),
    today=lambda _: dt.datetime.fromtimestamp(CLOCK.time()),
    utcnow=lambda _: dt.datetime.fromtimestamp(CLOCK.time(), dt.timezone.utc).replace(tzinfo=None),
)
_DATE: Final = _stand_in(dt.date, today=lambda _: dt.date.fromtimestamp(CLOCK.time()))


def _at_its_time(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a time in seconds, which by default is the time of `CLOCK`."""
    return lambda secs=None: real(CLOCK.time() if secs is None else secs)


_DATETIME_MODULE: Final = ModuleType("datetime")
vars(_DATETIME_MODULE).update({**vars(dt), "datetime": _DATETIME, "date": _DATE})
_STAND_INS: Final[dict[Any, Any]] = {
    dt: _DATETIME_MODULE,
    dt.datetime: _DATETIME,
    dt.date: _DATE,
    time.time: CLOCK.time,
    time.time_ns: lambda: int(CLOCK.time() * 1_000_000_000),
    time.strftime: lambda form, t=None: _STRFTIME(form, time.localtime() if t is None else t),
    **{each: _at_its_time(each) for each in (time.localtime, time.gmtime, time.ctime)},
}
"""What user code gets instead of each clock."""


@contextmanager
def move_clocks(namespaces: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Let user code read `CLOCK`.

    Args:
        namespaces: The global names of the user's modules, in which clocks are replaced.
    """
    # Code may have imported a clock under any name, so replace by identity and not by name.
    instead = {id(real): stand_in for real, stand_in in _STAND_INS.items()}
    changes = [
        (known, name, value)
        for known in (vars(time), *namespaces)
        for name, value in list(known.items())
        if id(value) in instead
    ]
    try:
        for known, name, value in changes:
            known[name] = instead[id(value)]
        yield
    finally:
        for known, name, former in changes:
            known[name] = former
        CLOCK.reset()


# Random numbers


@contextmanager
def use_random_seed(seed: int) -> Iterator[None]:
    """Seed the generators that functions draw from, and restore them at the end.

    Args:
        seed: Seed of `random`, of NumPy's global generator, and of `os.urandom`.
    """
    numbers = random.Random(seed)
    state, urandom = random.getstate(), os.urandom
    numpy: Any = sys.modules.get("numpy")
    former = numpy.random.get_state() if numpy is not None else None
    random.seed(seed)
    _set_system_source(numbers.randbytes)
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    try:
        yield
    finally:
        random.setstate(state)
        _set_system_source(urandom)
        if numpy is not None:
            numpy.random.set_state(former)


def _set_system_source(source: Callable[[int], bytes]) -> None:
    os.urandom = source
    # `random.SystemRandom` and `secrets` use this second name of it.
    random._urandom = source  # type: ignore[attr-defined]


# Changes that are lost

_COMPARABLE: Final = (
    *(str, bytes, int, float, bool, type(None)),
    *(Decimal, dt.date, dt.time, dt.timedelta),
)
"""Types of values that cannot change."""
_READS: Final = {
    ValueState: ("value",),
    MapState: ("get", "__getitem__", "items", "values"),
    ListState: ("get",),
    ReducingState: ("get",),
    AggregatingState: ("get",),
}
_WRITES: Final = (
    *("update", "put", "put_all", "add", "add_all", "remove", "clear"),
    *("__setitem__", "__delitem__"),
)
_OF_MANY: Final = ("items", "values")

_Note = tuple[str, Any, bytes]
"""What a change of a value means, the value, and its pickle before the change."""


class ValueWatch:
    """Remembers the values that a function gets and reads, and compares them after each call.

    Attributes:
        found: The changes that were found, in words.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._given: list[_Note] = []
        self._read: dict[int, list[_Note]] = {}

    def begin(self, name: str, records: Iterable[Any]) -> None:
        """Remember the records of a batch, before the function called `name` gets them."""
        what = f"{name} changes a record that it is given"
        self._given = [note for each in records for note in _notes(what, each)]

    def end(self) -> None:
        """Compare all that was given and read, after the last call of a batch."""
        self.end_call()
        self._compare(self._given)

    def end_call(self) -> None:
        """Compare the values that the last call read; the operator calls this before each call."""
        for notes in self._read.values():
            self._compare(notes)
        self._read.clear()

    def _compare(self, notes: Iterable[_Note]) -> None:
        self.found += [
            f"{what}: {short_repr(pickle.loads(copy))} has become {short_repr(value)}"
            for what, value, copy in notes
            if _copy(value) != copy
        ]

    @contextmanager
    def over_states(self) -> Iterator[None]:
        """Watch all reads and writes of states."""
        around = [(kind, name, self._reading) for kind, names in _READS.items() for name in names]
        around += [(kind, name, self._writing) for kind in _READS for name in _WRITES]
        with ExitStack() as patched:
            for kind, name, watching in around:
                if hasattr(kind, name):
                    watched = watching(getattr(kind, name))
                    patched.enter_context(mock.patch.object(kind, name, watched))
            yield

    def _reading(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def read(state: Any, *args: Any) -> Any:
            found = method(state, *args)
            what = f"a value that was read from the state {state.name!r} is changed, and not written back"
            notes = self._read.setdefault(id(state), [])
            if isinstance(state, ListState) or method.__name__ in _OF_MANY:
                return _Noted(found, lambda value: notes.extend(_notes(what, value)))
            notes += _notes(what, found)
            return found

        return read

    def _writing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def write(state: Any, *args: Any) -> None:
            method(state, *args)
            # A write may store a value that was read before, so forget the reads of this state.
            what = f"a value is changed after it was written to the state {state.name!r}"
            self._read[id(state)] = [note for each in args for note in _notes(what, each)]

        return write


class _Noted:
    """Values that are noted during iteration."""

    def __init__(self, values: Iterable[Any], note: Callable[[Any], None]) -> None:
        self._values, self._note = values, note

    def __iter__(self) -> Iterator[Any]:
        for each in self._values:
            self._note(each)
            yield each


def _notes(what: str, value: Any) -> list[_Note]:
    copy = None if isinstance(value, _COMPARABLE) else _copy(value)
    return [] if copy is None else [(what, value, copy)]


def _copy(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # a value that does not pickle cannot be compared
        return None
