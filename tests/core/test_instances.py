# SPDX-License-Identifier: Apache-2.0
"""Where a class is given for an instance of it, the message says so, wherever it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    HashMapStateBackend,
    KeyedProcessFunction,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness


class Nothing(KeyedProcessFunction):
    """Does nothing."""

    def process_element(self, value: Any, ctx: Any) -> None:
        """Nothing."""


class Maximum(ReduceFunction[int]):
    """Keeps the larger."""

    def reduce(self, value1: int, value2: int) -> int:
        """The larger of the two."""
        return max(value1, value2)


class Mean(AggregateFunction[int, Any, int]):
    """Never instantiated here."""


class Opens(Nothing):
    """Gets its states as it is told."""

    def __init__(self, get: Callable[[Any], Any]) -> None:
        self.get = get

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self.get(runtime_context)


def harness(**arguments: Any) -> KeyedProcessHarness:
    """A harness with some arguments of its own."""
    return KeyedProcessHarness(**{"function": Nothing(), "key_selector": str, **arguments})


LONG = Types.LONG()
GIVEN: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: harness(function=Nothing), "Nothing"),
    "backend": (lambda: harness(state_backend=HashMapStateBackend), "HashMapStateBackend"),
    "key type": (lambda: harness(key_type=type(LONG)), type(LONG).__name__),
    "descriptor": (
        lambda: harness(function=Opens(lambda context: context.get_state(ValueStateDescriptor))),
        "ValueStateDescriptor",
    ),
    "store": (
        lambda: harness(function=Opens(lambda context: context.get_store(KeyValueStoreDescriptor))),
        "KeyValueStoreDescriptor",
    ),
    "type of a state": (lambda: ValueStateDescriptor("s", type(LONG)), type(LONG).__name__),
    "type of a list": (lambda: Types.LIST(type(LONG)), type(LONG).__name__),
    "type of a side output": (lambda: OutputTag("late", type(LONG)), type(LONG).__name__),
    "type of a store": (
        lambda: KeyValueStoreDescriptor("s", type(LONG), LONG),
        type(LONG).__name__,
    ),
    "reduce function": (lambda: ReducingStateDescriptor("s", Maximum, LONG), "Maximum"),
    "aggregate function": (lambda: AggregatingStateDescriptor("s", Mean, LONG), "Mean"),
}


@pytest.mark.parametrize(("give", "name"), GIVEN.values(), ids=GIVEN)
def test_a_class_given_for_an_instance_is_to_be_called(give: Callable[[], Any], name: str) -> None:
    """The remedy is the call, which is what was forgotten."""
    with pytest.raises(DeclarationTypeError) as raised:
        give()
    assert str(raised.value).endswith(f"; that is the class: give an instance of it, {name}(...)")


def test_a_type_without_its_brackets_is_shown_with_them() -> None:
    """`Types.LONG` is a function that makes the type."""
    with pytest.raises(DeclarationTypeError, match=r"Types.LONG\(\), with \(\)$"):
        ValueStateDescriptor("s", Types.LONG)
