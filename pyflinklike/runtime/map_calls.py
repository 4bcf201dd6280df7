# SPDX-License-Identifier: Apache-2.0
"""Calls of a `MapFunction`, `FlatMapFunction` or `FilterFunction` on keyed records.

Such functions have state per key, but neither timers nor the time of an element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any

import attrs

from pyflinklike.api.map_functions import FilterFunction, MapFunction
from pyflinklike.api.results import check_results
from pyflinklike.runtime.calls import FunctionCalls

__all__ = ["MapCalls"]

Results = Iterable[Any] | None


@attrs.frozen
class MapCalls(FunctionCalls):
    """Calls a function that gets elements without a context."""

    def name(self) -> str:
        """Return the name of the function for messages; a wrapped callable shows its own name."""
        given = getattr(self.function, "func", self.function)
        return getattr(given, "__qualname__", type(given).__qualname__)

    def _element_call(self) -> Callable[[Any, Any], Results]:
        function = self.function
        if isinstance(function, MapFunction):
            return _mapped(function.map)
        if isinstance(function, FilterFunction):
            return _filtered(function.filter)
        return _flat_mapped(function.flat_map)

    def _timer_call(self) -> Callable[[int, Any], Results]:
        # These functions register no timers, so ignore restored ones.
        return _nothing

    def _named(self, value: Any) -> tuple[str, Any]:
        if isinstance(self.function, MapFunction):
            return "map", value
        return ("filter" if isinstance(self.function, FilterFunction) else "flat_map"), value


def _mapped(call: Callable[[Any], Any]) -> Callable[[Any, Any], Results]:
    return lambda value, _: (call(value),)


def _filtered(call: Callable[[Any], Any]) -> Callable[[Any, Any], Results]:
    return lambda value, _: (value,) if call(value) else None


def _flat_mapped(call: Callable[[Any], Results]) -> Callable[[Any, Any], Results]:
    def checked(value: Any, _: Any) -> Results:
        results = call(value)
        if results is not None and results.__class__ is not GeneratorType:
            check_results(results, "flat_map functions")
        return results

    return checked


def _nothing(_: int, __: Any) -> None:
    return None
