# SPDX-License-Identifier: Apache-2.0
"""Calls of an `AsyncFunction`, for a bundle of elements at a time.

Flink keeps a queue of open calls while further elements come in.  Here a host hands over the elements since the
last watermark, and waits for all their outputs.  So results may overtake each other, but never a watermark,
and no open call is ever part of a checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from pyflinklike._messages import short_repr, shown_error
from pyflinklike._runtime.user_errors import hint, where_raised
from pyflinklike.errors import PyflinklikeError, UserFunctionError
from pyflinklike.functions.process_functions import check_results
from pyflinklike.pyflink._graph.async_function import AsyncFunction, AsyncRetryStrategy

__all__ = ["AsyncCalls"]

Timed = tuple[Any, "int | None"]


@attrs.define
class AsyncCalls:
    """Calls an `AsyncFunction` in an event loop of its own, until it is closed.

    Args:
        function: The user's function, which must be open.
        timeout: The most time in ms for an element with all its attempts; 0 is no limit.
        capacity: The most elements to wait for at a time.
        is_ordered: Whether outputs come in the order of their elements.
        retry: Decides which results and errors are tried again.
    """

    function: AsyncFunction
    timeout: int
    capacity: int
    is_ordered: bool
    retry: AsyncRetryStrategy
    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False)

    def results(self, elements: Sequence[Timed]) -> list[Timed]:
        """Wait for the outputs of elements; each output has the time of its element.

        Args:
            elements: The elements with their event times in ms.

        Raises:
            UserFunctionError: The function raised, or took too long for an element.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        results = self._loop.create_task(self._all(elements))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(results)
        # A thread runs one loop at most, and a notebook's kernel already runs one in this thread.
        return _run_beside(self._loop, results)

    def close(self) -> None:
        """Close the loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    async def _all(self, elements: Sequence[Timed]) -> list[Timed]:
        places, finished = asyncio.Semaphore(self.capacity), []

        async def one(value: Any, timestamp: int | None) -> list[Timed]:
            # With a place taken: the timeout of an element begins when its call does.
            async with places:
                outputs = await self._outputs(value)
            results = [(output, timestamp) for output in outputs]
            finished.append(results)
            return results

        tasks = [asyncio.ensure_future(one(*element)) for element in elements]
        try:
            in_order = await asyncio.gather(*tasks)
        except BaseException:
            # No call may go on beside the next bundle, nor be left open when the loop is closed.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [each for some in (in_order if self.is_ordered else finished) for each in some]

    async def _outputs(self, value: Any) -> list[Any]:
        """Return the outputs of an element; after the timeout, what `function.timeout` returns."""
        attempts = asyncio.ensure_future(self._attempts(value))
        try:
            done, _ = await asyncio.wait({attempts}, timeout=self.timeout / 1000 or None)
            outputs = attempts.result() if done else self.function.timeout(value)
            check_results(outputs, "async functions")
        except PyflinklikeError:
            raise
        except Exception as error:
            name = type(self.function).__qualname__
            where = f"{where_raised(error)}{hint(error, has_timestamp=True)}"
            raised = f"{shown_error(error)}{where}"
            msg = f"{name}.async_invoke failed for element {short_repr(value)}: {raised}"
            raise UserFunctionError(msg) from error
        finally:
            attempts.cancel()
        return list(outputs)

    async def _attempts(self, value: Any) -> Any:
        """Call the function, again as often as the retry strategy wants, and return the last result."""
        predicate, number = self.retry.get_retry_predicate(), 1
        of_result, of_error = predicate.result_predicate(), predicate.exception_predicate()
        while True:
            result: list[Any] = []
            raised: Exception | None = None
            try:
                result = await self.function.async_invoke(value)
            except Exception as error:
                raised = error
            if raised is None:
                again = of_result is not None and of_result(result)
            else:
                again = of_error is not None and of_error(raised)
            if not again or not self.retry.can_retry(number):
                break
            await asyncio.sleep(self.retry.get_backoff_time_millis(number) / 1000)
            number += 1
        if raised is not None:
            raise raised
        return result


def _run_beside(loop: asyncio.AbstractEventLoop, task: asyncio.Task[list[Timed]]) -> list[Timed]:
    """Run a loop in another thread until a task is done; an interrupt here cancels the task."""
    with ThreadPoolExecutor(1, "pyflinklike-async") as thread:
        running = thread.submit(loop.run_until_complete, task)
        try:
            return running.result()
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            raise
