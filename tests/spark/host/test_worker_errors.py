# SPDX-License-Identifier: Apache-2.0
"""What Spark gets to show of a failed task begins with our sentence, and leads back to the error."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyflinklike.spark needs PySpark (the extra `spark`)")

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    IncompatibleStateError,
    PyflinklikeError,
    SparkSetupError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.spark import error_of
from pyflinklike.spark._host.spark_failures import raise_own_error
from pyflinklike.spark._host.worker_errors import report_errors, report_errors_of_each
from pyflinklike.testing import KeyedProcessHarness


class Fails(KeyedProcessFunction):
    """Fails by itself at 0, in its state at "x"."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value)
        yield 1 // value


def serving(element: Any) -> Any:
    """As a host serves an element."""
    return KeyedProcessHarness(Fails(), key_selector=str).process_element(element)


def reading(element: Any) -> Iterator[Any]:
    """As the batch host does."""
    yield from serving(element)


def shown_by_spark(call: Callable[[], Any]) -> str:
    """The text that PySpark's worker sends to the JVM of what a call raises."""
    with pytest.raises(PyflinklikeError) as raised:
        call()
    return "".join(traceback.format_exception(raised.value))


TOLD = {
    "a call": report_errors(serving),
    "an iterator": lambda element: list(report_errors_of_each(reading)(element)),
}
tellings = pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)


@tellings
def test_the_sentence_comes_first_and_the_users_traceback_last(told: Any) -> None:
    """Between them only frames that Spark adds: none of the runtime's."""
    lines = shown_by_spark(lambda: told(0)).splitlines()
    sentence = "pyflinklike.errors.UserFunctionError: Fails.process_element failed for key '0'"
    frames = [line for line in lines if "pyflinklike/" in line]
    assert (True, 2, "ZeroDivisionError", 1) == (
        lines[0].startswith(sentence),
        sum(line.startswith(sentence) for line in lines),
        lines[-1].partition(":")[0],  # what comes then differs from Python to Python
        len(frames),  # that of `told` itself
    )
    assert any("yield 1 // value" in line for line in lines)


@tellings
def test_the_line_that_used_a_state_wrongly_is_told(told: Any) -> None:
    """A state's own error has no cause, and its frames are the user's and the state's."""
    text = shown_by_spark(lambda: told("x"))
    assert (True, True, True) == (
        text.startswith("pyflinklike.errors.StateValueError: state 'last': type Long takes an int"),
        "Fails.process_element failed for key 'x'" in text,
        "self.last.update(value)" in text,
    )


def test_where_an_error_that_is_not_the_users_came_from_stays_to_be_seen() -> None:
    """Whoever mends this package needs its frames."""

    def damaged() -> None:
        raise CorruptStateError("segment 3: damaged")

    text = shown_by_spark(report_errors(damaged))
    assert text.startswith("pyflinklike.errors.CorruptStateError: segment 3: damaged\n")
    assert 'raise CorruptStateError("segment 3: damaged")' in text


def test_what_is_not_ours_is_raised_as_it_is() -> None:
    """An interrupt, or an error of Spark's, is none of our business."""

    def fails() -> None:
        raise OSError("no good")

    for call in (report_errors(fails), lambda: next(report_errors_of_each(fails)())):
        with pytest.raises(OSError, match="no good") as raised:
            call()
        assert raised.value.__cause__ is None


SENTENCE = (
    "Fails.process_element failed for key '0', element 0, at time None: ValueError: a\nb (f:1)"
)


@pytest.mark.parametrize(
    "text",
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "telling.py", line 5, in told\n    raise\n'
            f"pyflinklike.errors.UserFunctionError: {SENTENCE}\n"
            "Traceback (most recent call last):\n  File ...\nValueError: a\nb"
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception "
            f"was thrown from the Python worker: pyflinklike.errors.UserFunctionError: {SENTENCE}\n\n"
            "The above exception was the direct cause of the following exception:\n\nTraceback ...\n"
            f"pyflinklike.errors.UserFunctionError: {SENTENCE}\n SQLSTATE: 38000\n=== Streaming Query"
        ),
        f"Traceback ...\npyflinklike.errors.UserFunctionError: {SENTENCE}\n\n\tat org.apache.Spark",
        f"Traceback ...\npyflinklike.errors.UserFunctionError: {SENTENCE}\n SQLSTATE: 38000",
        f"pyflinklike.errors.UserFunctionError: {SENTENCE}\n",
    ],
    ids=["batch", "stream", "JVM stack", "SQLSTATE", "nothing else"],
)
def test_the_error_is_found_in_what_spark_shows(text: str) -> None:
    """Its class and its whole message, also one of two lines, and nothing of Spark's."""
    error = error_of(RuntimeError(text))
    assert (UserFunctionError, SENTENCE) == (type(error), str(error))


_PICTURE = (
    "=== Streaming Query ===\nLogical Plan:\n"
    "+- ~CollectMetrics second, [coalesce(sum(counts#1[0]), 0) AS records#2L]\n"
    "   +- ~TransformWithStateInPySpark transformWithStateUDF(__key_group#5)#57, 1, [output#5], Append, "
    "EventTime, pyspark.sql\n"
    "      +- ~CollectMetrics first, [coalesce(sum(counts#1[0]), 0) AS records#3L]\n"
    "         +- ~TransformWithStateInPySpark transformWithStateUDF(__key_group#5)#58, 1, [output#5], "
    "Append, {mode}, pyspark.sql\n"
)


@pytest.mark.parametrize(
    ("mode", "who"),
    [("NoTime", "operator 'second'"), ("EventTime", "one of the operators 'second', 'first'")],
)
def test_an_event_time_that_was_added_is_told_in_the_users_words(mode: str, who: str) -> None:
    """Spark refuses it before any task runs, and speaks of a timeMode that nobody has set."""
    text = (
        "[STATE_STORE_INVALID_CONFIG_AFTER_RESTART] Cannot change timeMode from NoTime to EventTime "
        f"between restarts. Please set timeMode to NoTime.\n{_PICTURE.format(mode=mode)}"
    )
    error = error_of(RuntimeError(text))
    assert (IncompatibleStateError, True) == (
        type(error),
        str(error).startswith(
            f"{who}: its checkpoint was begun without event_time and processing-time timers, got a "
            "program with event_time; leave both out as before, or begin a new checkpoint"
        ),
    )


def test_operators_more_or_less_are_told_in_the_users_words() -> None:
    """By the names that the program has now."""
    text = f"[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] x\n{_PICTURE}"
    error = error_of(RuntimeError(text.format(mode="NoTime")))
    assert isinstance(error, IncompatibleStateError)
    assert "got another number or kind of them (['first', 'second']); put" in str(error)


def test_a_sink_raises_our_error_alone() -> None:
    """py4j writes down all that hangs on an exception, before its message."""
    failure = RuntimeError(f"Traceback ...\npyflinklike.errors.UserFunctionError: {SENTENCE}\n")

    def sink() -> None:
        with raise_own_error():
            raise failure

    with pytest.raises(UserFunctionError) as raised:
        sink()
    assert (None, True) == (raised.value.__cause__, raised.value.__suppress_context__)


def test_a_sink_raises_what_is_not_ours_as_it_is() -> None:
    """With all that hangs on it."""
    with pytest.raises(OSError, match="full"), raise_own_error():
        raise OSError("full")


def test_a_failure_without_an_error_of_ours_has_none() -> None:
    """Nor one that only names a module or a class that is no error."""
    for text in ("Job aborted", "pyflinklike.errors.annotations: x", "pyflinklike.errors.Gone: x"):
        assert error_of(RuntimeError(text)) is None


def test_an_error_of_ours_is_its_own() -> None:
    """What is raised on the driver goes through the same handler."""
    error = StateValueError("x")
    assert error_of(error) is error


def test_what_is_not_an_exception_is_refused() -> None:
    """`query.exception()` of a query that runs is None."""
    with pytest.raises(DeclarationTypeError, match=r"an exception, got None; query.exception\(\)"):
        error_of(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        (
            (
                "Complete output mode not supported when there are no streaming aggregations on "
                "streaming DataFrames/Datasets"
            ),
            'got outputMode("complete")',
        ),
        (
            (
                "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. "
                "This output mode is not supported for streaming aggregations without watermark on "
                "streaming DataFrames/DataSets. SQLSTATE: 42KDE"
            ),
            "got one without a watermark",
        ),
        (
            (
                "[STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST] Streaming real-time mode "
                "has the following limitation: The sink(s): a is not in the sink allowlist"
            ),
            "got trigger(realTime=...)",
        ),
    ],
    ids=["complete in Spark 3.5", "append", "real time"],
)
def test_a_refused_way_to_write_a_stream_is_said_in_our_words(said: str, ours: str) -> None:
    """Spark speaks of its own operators, and knows no remedy."""
    told = error_of(RuntimeError(said))
    assert isinstance(told, SparkSetupError)
    assert ours in str(told)
