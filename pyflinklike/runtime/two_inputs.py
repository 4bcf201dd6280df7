# SPDX-License-Identifier: Apache-2.0
"""Calls of a function of two inputs.

The value of a record is a pair: the number of its input, 1 or 2, and the element.  Both inputs
share the states and timers of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pyflinklike.api.co_process import CoFlatMapFunction, CoMapFunction
from pyflinklike.runtime.calls import FunctionCalls

__all__ = ["TwoInputCalls"]

Results = Iterable[Any] | None


@attrs.frozen
class TwoInputCalls(FunctionCalls):
    """Calls a `KeyedCoProcessFunction`, `CoMapFunction` or `CoFlatMapFunction`."""

    def _element_call(self) -> Callable[[Any, Any], Results]:
        first, second = (getattr(self.function, self._method(number)) for number in (1, 2))
        if isinstance(self.function, CoMapFunction):
            return _mapped(first, second)
        if isinstance(self.function, CoFlatMapFunction):
            return _flat_mapped(first, second)

        def process(record: tuple[int, Any], context: Any) -> Results:
            number, element = record
            results: Results = (first if number == 1 else second)(element, context)
            return results

        return process

    def _timer_call(self) -> Callable[[int, Any], Results]:
        # Co-map and co-flat-map functions register no timers, so ignore restored ones.
        call: Callable[[int, Any], Results] = getattr(self.function, "on_timer", _nothing)
        return call

    def _named(self, value: tuple[int, Any]) -> tuple[str, Any]:
        # There is no value if the first record could not even be read.
        number, element = value or (1, None)
        return self._method(number), element

    def _method(self, number: int) -> str:
        if isinstance(self.function, CoMapFunction):
            return f"map{number}"
        if isinstance(self.function, CoFlatMapFunction):
            return f"flat_map{number}"
        return f"process_element{number}"


def _mapped(
    first: Callable[[Any], Any], second: Callable[[Any], Any]
) -> Callable[[Any, Any], Results]:
    def process(record: tuple[int, Any], _: Any) -> Results:
        number, element = record
        result = (first if number == 1 else second)(element)
        return None if result is None else (result,)

    return process


def _flat_mapped(
    first: Callable[[Any], Results], second: Callable[[Any], Results]
) -> Callable[[Any, Any], Results]:
    def process(record: tuple[int, Any], _: Any) -> Results:
        number, element = record
        # As in PyFlink a false result, such as an empty list, is no output.
        return (first if number == 1 else second)(element) or None

    return process


def _nothing(_: int, __: Any) -> None:
    return None
