# SPDX-License-Identifier: Apache-2.0
"""Finds changes to records, and to values that were read from state, that are lost.

On every backend, a function that reads a value gets a copy.  If it changes the copy, the change is
lost unless the function writes it back.  It is lost in every run alike, so comparing runs does not
show the mistake.  Instead, a `ValueWatch` copies each value when it is read, and compares the two
after the call.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from pyflinklike._messages import short_repr
from pyflinklike.state.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)

__all__ = ["ValueWatch"]

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Decimal, dt.date, dt.time, dt.timedelta)
_ALL: Final = (ValueState, MapState, ListState, ReducingState, AggregatingState)
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


class ValueWatch:
    """Remembers the values that a function gets and reads, and compares them after each call.

    Attributes:
        found: The changes that were found, in words.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._read: dict[int, list[tuple[str, Any, bytes]]] = {}

    def begin(self, name: str, records: Iterable[Any]) -> Callable[[], None]:
        """Remember the records of a function, and return a function that compares everything.

        Args:
            name: The name of the function.
            records: The elements, before the function is called.
        """
        notes = [
            note
            for each in records
            for note in _notes(f"{name} changes a record that it is given", each)
        ]

        def end() -> None:
            self.end_call()
            self._compare(notes)

        return end

    def end_call(self) -> None:
        """Compare the values that the last call read; the operator calls this before each call."""
        for notes in self._read.values():
            self._compare(notes)
        self._read.clear()

    def _compare(self, notes: Iterable[tuple[str, Any, bytes]]) -> None:
        self.found += [
            f"{what}: {short_repr(pickle.loads(copy))} has become {short_repr(value)}"
            for what, value, copy in notes
            if _copy(value) != copy
        ]

    @contextmanager
    def over_states(self) -> Iterator[None]:
        """Watch all reads and writes of states."""
        watched = [(kind, name, self._reading) for kind in _ALL for name in _READS[kind]]
        watched += [(kind, name, self._writing) for kind in _ALL for name in _WRITES]
        watched = [each for each in watched if hasattr(*each[:2])]
        former = [(kind, name, vars(kind).get(name)) for kind, name, _ in watched]
        try:
            for kind, name, around in watched:
                setattr(kind, name, around(getattr(kind, name)))
            yield
        finally:
            for kind, name, method in former:
                if method is None:
                    delattr(kind, name)
                else:
                    setattr(kind, name, method)

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


def _notes(what: str, value: Any) -> list[tuple[str, Any, bytes]]:
    copy = None if isinstance(value, _PLAIN) else _copy(value)
    return [] if copy is None else [(what, value, copy)]


def _copy(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # a value that does not pickle cannot be compared
        return None
