# SPDX-License-Identifier: Apache-2.0
"""Values that a function changes although nobody will see it: records, and what it read from state.

A value that was read is the function's own copy, on every backend.  So a change of it is lost unless
it is written back, in every run alike: no fault shows it, but a copy made before does.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

import attrs

from pyflinklike._messages import shown
from pyflinklike.state.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)

__all__ = ["ValueWatch"]

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Decimal, dt.date, dt.time, dt.timedelta)


@attrs.frozen
class _Note:
    what: str
    value: Any
    copy: bytes

    def is_changed(self) -> bool:
        return _copy(self.value) != self.copy


class ValueWatch:
    """Remembers what a function was given and has read, and compares it after each call.

    Attributes:
        found: What was changed, in words.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._read: dict[int, list[_Note]] = {}
        self._records: list[_Note] = []

    def take_records(self, name: str, records: Iterable[Any]) -> None:
        """Remember the records of a micro-batch.

        Args:
            name: The function that gets them.
            records: The elements.
        """
        self._records += _notes(f"{name} changes a record that it is given", records)

    def end_call(self) -> None:
        """Compare what the last call has read; it is called before every call."""
        notes = [note for each in self._read.values() for note in each]
        self._read.clear()
        self._compare(notes)

    def end_batch(self) -> None:
        """Compare everything that was remembered."""
        self.end_call()
        records, self._records = self._records, []
        self._compare(records)

    def _compare(self, notes: Iterable[_Note]) -> None:
        self.found += [
            f"{each.what}: {shown(pickle.loads(each.copy))} has become {shown(each.value)}"  # of this very process
            for each in notes
            if each.is_changed()
        ]

    def _note_read(self, state: State, value: Any) -> Any:
        what = (
            f"a value that was read from the state {state.name!r} is changed, and not written back"
        )
        self._read.setdefault(id(state), []).extend(_notes(what, [value]))
        return value

    def _note_write(self, state: State, values: Sequence[Any]) -> None:
        # Whoever writes has seen to what was read before.
        what = f"a value is changed after it was written to the state {state.name!r}"
        self._read[id(state)] = _notes(what, values)

    @contextmanager
    def over_states(self) -> Iterator[None]:
        """Watch all reads and writes of states."""
        changed = [
            *((kind, name, self._watch_read) for kind, name in _READS),
            *((kind, name, self._watch_reads) for kind, name in _READS_OF_MANY),
            *((kind, name, self._watch_write) for kind, name in _WRITES),
        ]
        former = [(kind, name, vars(kind).get(name)) for kind, name, _ in changed]
        try:
            for kind, name, around in changed:
                setattr(kind, name, around(getattr(kind, name)))
            yield
        finally:
            for kind, name, method in former:
                if method is None:
                    delattr(kind, name)
                else:
                    setattr(kind, name, method)

    def _watch_read(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def read(state: State, *args: Any) -> Any:
            return self._note_read(state, method(state, *args))

        return read

    def _watch_reads(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def read(state: State) -> Any:
            return _Noted(method(state), lambda value: self._note_read(state, value))

        return read

    def _watch_write(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def write(state: State, *args: Any) -> None:
            method(state, *args)
            self._note_write(state, args)

        return write


_READS: Final = [
    (ValueState, "value"),
    (MapState, "get"),
    (MapState, "__getitem__"),
    (ReducingState, "get"),
    (AggregatingState, "get"),
]
_READS_OF_MANY: Final = [(ListState, "get"), (MapState, "items"), (MapState, "values")]
_WRITES: Final = [
    (ValueState, "update"),
    (ValueState, "clear"),
    (MapState, "put"),
    (MapState, "__setitem__"),
    (MapState, "put_all"),
    (MapState, "remove"),
    (MapState, "__delitem__"),
    (MapState, "clear"),
    (ListState, "add"),
    (ListState, "add_all"),
    (ListState, "update"),
    (ListState, "clear"),
    (ReducingState, "add"),
    (AggregatingState, "add"),
]


class _Noted:
    """Values that are noted while they are iterated."""

    def __init__(self, values: Iterable[Any], note: Callable[[Any], Any]) -> None:
        self._values, self._note = values, note

    def __iter__(self) -> Iterator[Any]:
        return map(self._note, self._values)


def _notes(what: str, values: Iterable[Any]) -> list[_Note]:
    copies = ((each, _copy(each)) for each in values if not isinstance(each, _PLAIN))
    return [_Note(what, value, copy) for value, copy in copies if copy is not None]


def _copy(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # nothing to compare it with
        return None
