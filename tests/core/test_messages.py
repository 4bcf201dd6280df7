# SPDX-License-Identifier: Apache-2.0
"""Messages that hold a user's values stay short, and tell what failed even if `__repr__` fails too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import PyflinklikeError
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction

PACKAGE = Path(__file__).resolve().parents[2] / "pyflinklike"
BIG = 5_000_000
MOST = 10_000


class Unshowable:
    """Its `__repr__` is broken, as that of a half-made object."""

    def __repr__(self) -> str:
        raise AttributeError("_name")

    def __iter__(self) -> Iterator[Any]:
        raise OSError("no good")


class Runs(KeyedProcessFunction):
    """Does with its states and an element what it is told."""

    def __init__(self, call: Callable[[Runs, Any], Any]) -> None:
        self.call = call

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("v", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("l", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.call(self, value)


def _fail(_: Any, value: Any) -> None:
    raise OSError("no good")


def _fail_with(_: Any, value: Any) -> None:
    raise KeyError(value)


def _fail_with_more(_: Any, value: Any) -> None:
    raise ValueError("no good", value)


MISUSES = {
    "raises": _fail,
    "raises it": _fail_with,
    "raises it and more": _fail_with_more,
    "value of another type": lambda function, value: function.value.update(value),
    "elements that are no list": lambda function, value: function.list.update(value),
    "element of another type": lambda function, value: function.list.add(value),
    "side output of three": lambda _, value: [(OutputTag("side"), value, value)],
}
ELEMENTS = {
    "bytes": b"\x00" * BIG,
    "text": "x" * BIG,
    "row": Row(a=b"\x00" * BIG, b="x" * BIG),
    "list": ["x"] * BIG,
    "deep": [[["x" * 100] * 100] * 100] * 100,
    "unshowable": Unshowable(),
    "in a row": Row(a=Unshowable()),
}


def text_of(error: BaseException) -> str:
    """All that is shown of an error of ours."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_an_element_of_any_size_and_repr_is_told_in_a_short_message(
    misuse: Callable[[Runs, Any], Any], element: Any
) -> None:
    """The error is ours, names the function, and is of a length that can be read."""
    with (
        KeyedProcessHarness(Runs(misuse), key_selector=lambda _: "k") as harness,
        pytest.raises(PyflinklikeError) as raised,
    ):
        harness.process_element(element)
    text = text_of(raised.value)
    # An error of ours is named in a note, which Python 3.10 does not have.
    named = sys.version_info < (3, 11) or "Runs.process_element failed for key 'k'" in text
    assert (True, True) == (len(text) < MOST, named)


def test_what_the_function_raised_is_told_beside_an_element_that_cannot_be_shown() -> None:
    """The original error is what matters."""
    with (
        KeyedProcessHarness(Runs(_fail), key_selector=lambda _: "k") as harness,
        pytest.raises(PyflinklikeError) as raised,
    ):
        harness.process_element(Unshowable())
    assert str(raised.value).startswith(
        "Runs.process_element failed for key 'k', element <Unshowable whose repr failed with "
        "AttributeError>, at time None: OSError: no good ("
    )


def test_a_long_key_is_shown_short() -> None:
    """Where the function fails, and where the key itself is refused."""
    with KeyedProcessHarness(Runs(_fail), key_selector=lambda value: value) as harness:
        for key in ("x" * BIG, "\ud800" * BIG, Unshowable(), ("x" * BIG, Unshowable())):
            with pytest.raises(PyflinklikeError) as raised:
                harness.process_element(key)
            assert len(text_of(raised.value)) < MOST


def test_a_key_selector_that_fails_is_told_with_the_element_short() -> None:
    """As every other function of the user's."""

    def fails(value: Any) -> str:
        raise OSError("no good")

    for element in ELEMENTS.values():
        with (
            KeyedProcessHarness(Runs(_fail), key_selector=fails) as harness,
            pytest.raises(PyflinklikeError, match="OSError: no good") as raised,
        ):
            harness.process_element(element)
        assert len(text_of(raised.value)) < MOST


def test_an_upsert_that_fails_is_told_with_its_element_short() -> None:
    """Its key is fine, its order and value are not."""

    def fails(element: Any) -> Any:
        raise OSError("no good")

    for element in ELEMENTS.values():
        for given in ({"order_key": fails}, {"value": fails}):
            function = UpsertFunction(
                **{"value": lambda _: "v", "value_type": Types.STRING(), **given},
                on_error="raise",
            )
            with (
                KeyedProcessHarness(function, key_selector=lambda _: "k") as harness,
                pytest.raises(PyflinklikeError, match="OSError: no good") as raised,
            ):
                harness.process_element(element)
            assert len(text_of(raised.value)) < MOST


# What users give, by the names that the package has for it.
USERS = {
    "value", "values", "element", "key", "row", "record", "result", "results", "given", "subject",
    "order", "args", "kwargs", "data", "error", "cause",
}  # fmt: skip
# Their messages are converted with what they belong to.
LEFT = ("conformance/",)


def _shown_by_repr() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        source = path.read_text()
        if name.startswith(LEFT) or "!r" not in source:
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef) and function.name != "__repr__":
                for part in ast.walk(function):
                    if isinstance(part, ast.FormattedValue) and part.conversion == ord("r"):
                        yield f"{name}: {ast.unparse(part.value)}"


def test_no_message_shows_by_repr_what_a_user_gave() -> None:
    """A message that does so is as long as what it shows, and fails with it."""
    found = set(_shown_by_repr())
    assert len(found) > 20
    assert [] == sorted(each for each in found if each.rpartition(": ")[2] in USERS)
