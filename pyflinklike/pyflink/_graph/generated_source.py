# SPDX-License-Identifier: Apache-2.0
"""Elements that a function makes from numbers, to try a program out: Flink's `DataGeneratorSource` of Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count as counted
from typing import Any

import attrs

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, UserFunctionError
from pyflinklike.pyflink._graph.function_copies import copy_function
from pyflinklike.pyflink._graph.sources import NumberSequenceSource, Source
from pyflinklike.types import TypeInformation, Types

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]


@attrs.frozen
class RateLimiterStrategy:
    """The speed of a source, as Flink's.

    Args:
        records_per_second: The number of elements that all instances together yield in a second.
    """

    records_per_second: int

    @staticmethod
    def per_second(records_per_second: int) -> RateLimiterStrategy:
        """Let all instances together yield this many elements in a second.

        Args:
            records_per_second: An int above 0.

        Raises:
            DeclarationValueError: `records_per_second` is no int above 0.
        """
        if not is_int(records_per_second) or records_per_second < 1:
            msg = f"a rate is an int above 0, got {short_repr(records_per_second)}; give for example 5"
            raise DeclarationValueError(msg)
        return RateLimiterStrategy(records_per_second)


class DataGeneratorSource(Source):
    """The results of a function for the numbers from 0 on.

    A source with a count ends, and yields all elements at once.  A source without a count never
    ends: on Spark it keeps its rate, also over restarts; the local runner reads it as fast as it
    can.

    Args:
        generator_function: Makes an element from a number.
        count: The number of elements; None for no end.
        rate_limiter_strategy: The speed of a source without an end.
        type_info: The type of the elements; None is any object that pickles.

    Raises:
        DeclarationTypeError: The function cannot be called, or the type is no `TypeInformation`.
        DeclarationValueError: The count is no int above 0; or the count and the rate are both
            given, or both left out.
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        _check(generator_function, count, rate_limiter_strategy)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            msg = f"type_info is a TypeInformation, got {short_repr(type_info)}; give for example Types.INT()"
            raise DeclarationTypeError(msg)
        self._function, self._count = copy_function(generator_function), count
        self.rate = (
            None if rate_limiter_strategy is None else rate_limiter_strategy.records_per_second
        )
        """The number of elements in a second, for a source without an end."""
        self._type_info = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info

    @property
    def is_bounded(self) -> bool:
        """True if the source has a count."""
        return self._count is not None

    @property
    def type_info(self) -> TypeInformation:
        """The declared type of the elements."""
        return self._type_info

    @property
    def identity(self) -> str:
        """The number of elements, or the number in a second."""
        how_many = f"{self.rate} in a second" if self._count is None else str(self._count)
        return f"generated elements, {how_many}"

    def element(self, number: int) -> Any:
        """Return the element of a number.

        Args:
            number: The number, from 0 on.

        Raises:
            UserFunctionError: The function fails.
        """
        try:
            return self._type_info.converted(self._function(number))
        except Exception as error:
            msg = f"the generator function failed for number {number}: {shown_error(error)}"
            raise UserFunctionError(msg) from error

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of one instance, without event times."""
        # Without a count every instance goes on for ever, so it takes every so many-th number, not a range.
        numbers: Any = counted(index, parallelism)
        if self._count is not None:
            numbers = NumberSequenceSource(0, self._count - 1).part(index, parallelism)
        return ((self.element(number), None) for number in numbers)


def _check(function: Any, count: Any, rate: Any) -> None:
    if not callable(function):
        msg = (
            f"a generator function takes a number, got {short_repr(function)}; give for example str"
        )
        raise DeclarationTypeError(msg)
    if (count is None) is (rate is None):
        which = "none" if count is None else "both"
        msg = f"generated elements have a count or a rate, got {which}; give count=1000, or RateLimiterStrategy.per_second(5)"
        raise DeclarationValueError(msg)
    if rate is not None and not isinstance(rate, RateLimiterStrategy):
        msg = f"it takes a RateLimiterStrategy, got {short_repr(rate)}; give RateLimiterStrategy.per_second(5)"
        raise DeclarationTypeError(msg)
    if count is not None and (not is_int(count) or count < 1):
        msg = f"a count is an int above 0, got {short_repr(count)}; give for example 1000"
        raise DeclarationValueError(msg)
