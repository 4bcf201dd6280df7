# SPDX-License-Identifier: Apache-2.0
"""How messages show a user's values: short, and whatever their `__repr__` does."""

from __future__ import annotations

import tracemalloc
from collections import deque, namedtuple
from datetime import datetime
from importlib import import_module
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike._messages import (
    short_repr,
    shown_error,
    shown_message,
    shown_state,
    shown_traceback,
    whole_message,
)

Pair = namedtuple("Pair", "left right")

_SMALL = [
    None,
    True,
    7,
    1.5,
    "it's",
    b"\x00'",
    (1,),
    [],
    [1, [2, [3]]],
    {"b": 1, "a": {2: 3}},
    Row(user="ann", amount=3),
    Row(1, "a"),
    Row(),
    Pair(1, "b"),
    datetime(2024, 1, 1),
    deque([1]),
    bytearray(b"ab"),
    int,
]


@pytest.mark.parametrize("value", _SMALL, ids=repr)
def test_a_small_value_is_shown_as_its_repr(value: Any) -> None:
    """What is short stays as it is, dicts in their own order."""
    assert repr(value) == short_repr(value)


class _Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class _NoText:
    def __repr__(self) -> str:
        return 7  # type: ignore[return-value]


class _Endless(list[Any]):
    def __repr__(self) -> str:
        return f"<{self!r}>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_Raising(KeyError("x")), "<_Raising whose repr failed with KeyError>"),
        (_Raising(RecursionError()), "<_Raising whose repr failed with RecursionError>"),
        (_NoText(), "<_NoText whose repr failed with TypeError>"),
        (_Endless(), "<_Endless whose repr failed with RecursionError>"),
        (Row(a=1, b=_NoText()), "Row(a=1, b=<_NoText whose repr failed with TypeError>)"),
        ([1, _NoText()], "[1, <_NoText whose repr failed with TypeError>]"),
        ({_NoText: _NoText()}, f"{{{_NoText!r}: <_NoText whose repr failed with TypeError>}}"),
    ],
    ids=["raises", "recursion", "no text", "endless", "row", "list", "dict"],
)
def test_a_repr_that_fails_is_told_by_its_class(value: Any, expected: str) -> None:
    """The rest of what holds it is shown all the same."""
    assert expected == short_repr(value)


def test_an_interrupt_in_a_repr_is_no_failure_of_it() -> None:
    """Ctrl-C passes."""
    with pytest.raises(KeyboardInterrupt):
        short_repr(_Raising(KeyboardInterrupt()))


def test_what_is_nested_deeply_or_in_itself_is_cut_off() -> None:
    """From the fifth level on."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    looped: list[Any] = []
    looped.append(looped)
    row = Row(a=Row(a=Row(a=Row(a=Row(a=1)))))
    table = {"a": {"a": {"a": {"a": {"a": 1}}}}}
    assert "[[[[[...]]]]]" == short_repr(deep)
    assert "[[[[[...]]]]]" == short_repr(looped)
    assert "Row(a=Row(a=Row(a=Row(a=Row(...)))))" == short_repr(row)
    assert "{'a': {'a': {'a': {'a': {...}}}}}" == short_repr(table)


def test_of_what_is_long_the_ends_are_shown() -> None:
    """Of a text, of bytes and of a number its two ends, of a collection the first ones."""
    text, data = short_repr("a" + "x" * 10**6 + "z"), short_repr(b"a" + b"x" * 10**6 + b"z")
    assert ("'ax", "xz'", True) == (text[:3], text[-3:], "x...x" in text)
    assert ("b'ax", "xz'", True) == (data[:4], data[-3:], "x...x" in data)
    assert ("'a", "z'") == (
        short_repr("a" + "\x00" * 300 + "z")[:2],
        short_repr("\x00" * 300 + "z")[-2:],
    )
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]" == short_repr(list(range(10**6)))
    assert "{0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0, ...}" == short_repr(
        dict.fromkeys(range(10**6), 0)
    )
    assert "<int of 33220 bits>" == short_repr(10**10_000)
    fields = short_repr(Row(**{f"f{i}": i for i in range(40)}))
    assert ("f29=29, ...)", True) == (fields[-12:], fields.startswith("Row(f0=0, f1=1, "))
    assert "29, ...)>" == short_repr(Row(*range(40)))[-9:]


@pytest.mark.parametrize(
    "value",
    [
        b"\x00" * 20_000_000,
        bytearray(20_000_000),
        "x" * 20_000_000,
        Row(a=b"\x00" * 20_000_000, b=["\x00" * 20_000_000]),
        Pair(b"\x00" * 20_000_000, 1),
        {"a": b"\x00" * 20_000_000},
        [0] * 2_500_000,
    ],
    ids=["bytes", "bytearray", "str", "row", "named tuple", "dict", "list"],
)
def test_twenty_megabytes_take_no_memory_to_be_shown(value: Any) -> None:
    """A worker whose element does not fit twice must still be able to tell of it."""
    tracemalloc.start()
    try:
        text = short_repr(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (True, True) == (len(text) <= 2_000, peak < 100_000)


@given(
    st.recursive(
        st.none() | st.text(max_size=500) | st.binary(max_size=500) | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    )
)
def test_nothing_is_shown_at_length(value: Any) -> None:
    """Whatever it is made of."""
    assert len(short_repr(value)) <= 2_000


class _Surrogate(Exception):
    def __repr__(self) -> str:
        return "<\udcff>"


@given(st.text(st.characters(), max_size=20))
def test_whatever_is_shown_can_be_written_as_utf_8(text: str) -> None:
    """Spark's workers and Arrow take no lone surrogate: it is shown escaped, and all else as it is."""
    error = ValueError(f"<{text}\udcff>")
    escaped = text.encode(errors="backslashreplace").decode()
    assert (f"<{escaped}\\udcff>", f"ValueError: <{escaped}\\udcff>", "<\\udcff>", True) == (
        whole_message(error),
        shown_error(error),
        short_repr(_Surrogate()),
        shown_traceback(error).endswith(f"ValueError: <{escaped}\\udcff>\n"),
    )


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_error_is_shown_by_its_class_and_message() -> None:
    """A long one shortened, and one whose message fails by what that raised."""
    assert "KeyError: 'a'" == shown_error(KeyError("a"))
    assert "_Mute: <its message failed with ValueError>" == shown_error(_Mute())
    assert len(shown_error(KeyError(b"\x00" * 10**6))) < 2_100


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        ValueError("a"),
        ValueError(["a"]),
        ValueError(Row(a="b")),
        ValueError("a", ["b"]),
        ValueError(PurePath("/a")),
        KeyError(),
        KeyError("a"),
        KeyError("a", "b"),
        FileNotFoundError(2, "not there", "/a"),
        UnicodeDecodeError("utf-8", b"a", 0, 1, "bad"),
    ],
    ids=repr,
)
def test_the_message_of_an_error_is_its_own(error: Exception) -> None:
    """However the error makes it."""
    assert str(error) == shown_message(error)


@pytest.mark.parametrize(
    "error",
    [KeyError, ValueError, lambda value: ValueError("a", value)],
    ids=["key", "value", "more"],
)
def test_an_error_of_twenty_megabytes_takes_no_memory_to_be_shown(error: Any) -> None:
    """The message of many errors is the repr of what was raised."""
    raised = error([b"\x00" * 20_000_000])
    tracemalloc.start()
    try:
        text = shown_error(raised)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (True, True) == (len(text) <= 2_000, peak < 100_000)


@pytest.mark.parametrize(
    ("program", "state", "words"),
    [
        ("aggregations.fold", "_reduce_state", "the fold of a key"),
        ("joins.interval_joiner", "_join_left", "the kept elements of the left input"),
        ("joins.interval_joiner", "_join_right", "the kept elements of the right input"),
        ("windows.window_contents", "window-contents", "the contents of a window"),
        ("windows.merging_window_set", "merging-window-set", "the sessions of a key"),
    ],
)
def test_a_state_that_no_user_named_is_called_by_what_it_holds(
    program: str, state: str, words: str
) -> None:
    """And by its name: the program that declares the state says so, once it is loaded."""
    import_module(f"pyflinklike.{program}")
    assert f"{words} (state {state!r})" == shown_state(state)


def test_a_state_of_the_user_is_called_by_its_name() -> None:
    """No program of ours has a state of that name."""
    assert "state 'total'" == shown_state("total")
