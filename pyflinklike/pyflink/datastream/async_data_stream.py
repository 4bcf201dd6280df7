# SPDX-License-Identifier: Apache-2.0
"""Functions that wait for a service, as `pyflink.datastream.AsyncDataStream`.

class Prices(AsyncFunction):
async def async_invoke(self, value):
return [(value, await ask_service(value))]

priced = AsyncDataStream.ordered_wait(stream, Prices(), Time.seconds(5))
"""

from __future__ import annotations

import inspect
from typing import Any

from pyflinklike._checks import is_int
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink._graph.functions import AsyncFunction, AsyncRetryStrategy, copy_function
from pyflinklike.pyflink._graph.nodes import AsyncWait
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.data_stream import DataStream
from pyflinklike.pyflink.datastream.stream_node import OutputType, output_type_of
from pyflinklike.state.fold_functions import adopt, check_methods

__all__ = ["AsyncDataStream"]

__getattr__ = of_pyflink(__name__)


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream."""

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Apply a function; outputs may overtake each other, but not a watermark.

        Args:
            data_stream: The stream of the elements.
            async_function: The function; its `async_invoke` waits for a service.
            timeout: The greatest time for an element; an int is in ms, and 0 is no limit.
            capacity: The greatest number of elements that wait at one time, at least 1.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return _wait(False, data_stream, async_function, timeout, capacity, output_type)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Apply a function as `unordered_wait` does, and retry elements by a strategy.

        Args:
            data_stream: The stream of the elements.
            async_function: The function; its `async_invoke` waits for a service.
            timeout: The greatest time for an element with all attempts, above 0; an int is in ms.
            async_retry_strategy: Decides whether and when an element is retried.
            capacity: The greatest number of elements that wait at one time, at least 1.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        retry = _check_strategy(async_retry_strategy)
        return _wait(False, data_stream, async_function, timeout, capacity, output_type, retry)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Apply a function; outputs come in the order of their elements.

        Args:
            data_stream: The stream of the elements.
            async_function: The function; its `async_invoke` waits for a service.
            timeout: The greatest time for an element; an int is in ms, and 0 is no limit.
            capacity: The greatest number of elements that wait at one time, at least 1.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return _wait(True, data_stream, async_function, timeout, capacity, output_type)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Apply a function as `ordered_wait` does, and retry elements by a strategy.

        Args:
            data_stream: The stream of the elements.
            async_function: The function; its `async_invoke` waits for a service.
            timeout: The greatest time for an element with all attempts, above 0; an int is in ms.
            async_retry_strategy: Decides whether and when an element is retried.
            capacity: The greatest number of elements that wait at one time, at least 1.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        retry = _check_strategy(async_retry_strategy)
        return _wait(True, data_stream, async_function, timeout, capacity, output_type, retry)


def _wait(
    is_ordered: bool,
    data_stream: DataStream,
    function: AsyncFunction,
    timeout: DurationLike,
    capacity: int,
    output_type: OutputType,
    retry: AsyncRetryStrategy | None = None,
) -> DataStream:
    function = adopt(function, AsyncFunction)
    _check_function(function)
    milliseconds = to_milliseconds(timeout, "timeout")
    if milliseconds < 0 or (retry is not None and milliseconds == 0):
        msg = f"Timeout should be configured when do async with retry, got {milliseconds} ms; give 1 or more"
        raise DeclarationValueError(msg)
    if not is_int(capacity) or capacity < 1:
        msg = f"capacity is at least 1, got {short_repr(capacity)}"
        raise DeclarationValueError(msg)
    # The function has no keyed state, so it gets the elements alone.
    return data_stream.without_keys()._next(
        AsyncWait,
        "async wait operator",
        output_type_of(output_type),
        function=copy_function(function),
        timeout=milliseconds,
        capacity=capacity,
        is_ordered=is_ordered,
        retry=copy_function(retry),
    )


def _check_strategy(strategy: Any) -> AsyncRetryStrategy:
    strategy = adopt(strategy, AsyncRetryStrategy)
    if not isinstance(strategy, AsyncRetryStrategy):
        otherwise = "give for example AsyncRetryStrategy.fixed_delay(3, 100), or call without retry"
        remedy = instance_of(AsyncRetryStrategy, strategy, otherwise)
        msg = f"a wait with retry takes an AsyncRetryStrategy, got {short_repr(strategy)}; {remedy}"
        raise DeclarationTypeError(msg)
    if strategy.get_retry_predicate() is None:
        name = type(strategy).__qualname__
        msg = f"Retry predicate of the async retry strategy {name!r} is None, got None; return an AsyncRetryPredicate"
        raise DeclarationTypeError(msg)
    return strategy


def _check_function(function: Any) -> None:
    if not isinstance(function, AsyncFunction):
        remedy = instance_of(AsyncFunction, function, "subclass AsyncFunction")
        msg = f"it takes an AsyncFunction, got {short_repr(function)}; {remedy}"
        raise DeclarationTypeError(msg)
    check_methods(function)
    # Without this check a call would return a list, and fail with the first element.
    if not inspect.iscoroutinefunction(function.async_invoke):
        msg = (
            f"Method 'async_invoke' of class {type(function).__qualname__!r} should be declared as "
            f"'async def', got {short_repr(function.async_invoke)}"
        )
        raise DeclarationTypeError(msg)
