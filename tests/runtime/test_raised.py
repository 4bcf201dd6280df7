# SPDX-License-Identifier: Apache-2.0
"""An error of the user's code names the line of that code, and what in the runtime gives None."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError
from pyflinklike.testing import KeyedProcessHarness

REPOSITORY = Path(__file__).resolve().parents[2]


class Runs(KeyedProcessFunction):
    """Calls with itself, the element and the context what it was given."""

    def __init__(self, call: Callable[[Runs, Any, Any], Any]) -> None:
        self.call = call

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", Types.LONG()))
        self.folded = runtime_context.get_reducing_state(
            ReducingStateDescriptor("folded", lambda one, other: one // other, Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.call(self, value, ctx)


def error_of(
    call: Callable[[Runs, Any, Any], Any], value: Any = 0, timestamp: int | None = None
) -> PyflinklikeError:
    """What the harness raises when a function does this."""
    harness = KeyedProcessHarness(Runs(call), key_selector=lambda _: "k")
    with pytest.raises(PyflinklikeError) as raised:
        harness.process_element(value, timestamp)
    return raised.value


def line_of(call: Any, offset: int = 0) -> str:
    """How messages name a line of a function, the first by default."""
    code = call.__code__
    return f"({__file__}:{code.co_firstlineno + offset}, in {code.co_name})"


def test_what_a_library_raises_is_told_with_the_line_that_called_it() -> None:
    """The line in json is nobody's who reads the message."""

    def parses(_function: Runs, value: Any, _ctx: Any) -> Any:
        return json.loads(value)

    assert f"Expecting value: line 1 column 1 (char 0) {line_of(parses, 1)}" in str(
        error_of(parses, "x")
    )


def test_a_generator_is_told_with_its_own_line() -> None:
    """It runs after the call that made it has returned."""

    def divides(_function: Runs, value: Any, _ctx: Any) -> Any:
        yield 1
        yield 1 // value

    assert line_of(divides, 2) in str(error_of(divides))


def test_the_function_of_a_state_is_told_with_its_line() -> None:
    """Not the line that wrote the state, which is innocent."""

    def folds(function: Runs, value: Any, _ctx: Any) -> Any:
        function.folded.add(1)
        function.folded.add(value)

    line = Runs.open.__code__.co_firstlineno + 4
    assert f"({__file__}:{line}, in <lambda>)" in str(error_of(folds))


def test_an_error_of_ours_has_the_users_line_in_its_note() -> None:
    """Its message and class are the state's; the note has the call's key, element and time."""

    def updates(function: Runs, value: Any, _ctx: Any) -> Any:
        function.total.update("x")

    error = error_of(updates, 7, 5)
    told = f"failed for key 'k', element 7, at time 5 {line_of(updates, 1)}"
    assert (StateValueError, True) == (type(error), error.__notes__[0].endswith(told))


def test_a_function_that_is_installed_as_a_library_is_told_with_its_line(tmp_path: Path) -> None:
    """What is not a library is the code that the runtime called, wherever it lies."""
    packages = tmp_path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    package = packages / "site-packages" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "fails.py").write_text("def inverse(value):\n    return 1 / value\n")
    (package / "ratio.py").write_text(
        textwrap.dedent("""
        import sysconfig
        import shop.fails
        from pyflinklike import KeyedProcessFunction

        class Ratio(KeyedProcessFunction):
            def process_element(self, value, ctx):
                yield shop.fails.inverse(value)
        """)
    )
    program = textwrap.dedent("""
        import sys, sysconfig
        paths = sysconfig.get_path
        sysconfig.get_path = lambda name: sys.argv[1] if name == "purelib" else paths(name)
        from pyflinklike.testing import KeyedProcessHarness
        from shop.ratio import Ratio
        KeyedProcessHarness(Ratio(), key_selector=str).process_element(0)
        """)
    run = subprocess.run(
        [sys.executable, "-c", program, str(package.parent)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), str(REPOSITORY)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"({package / 'fails.py'}:2, in inverse)" in run.stderr.splitlines()[-1]


def test_a_missing_timestamp_is_told_with_the_argument_that_gives_it() -> None:
    """`ctx.timestamp()` is None without event time, as in Flink, and None + 1 says nothing."""
    text = str(error_of(lambda _function, _value, ctx: ctx.timestamp() + 1))
    assert text.endswith(
        '; ctx.timestamp() is None if there is no event time: pass event_time="<column>" to '
        "process(), in a job call assign_timestamps_and_watermarks, in a test pass a timestamp to the harness"
    )


def test_a_state_without_a_value_is_told() -> None:
    """The mistake that everyone makes first, with operators and with attributes."""
    for call in (
        lambda function, value, _ctx: function.total.update(function.total.value() + value),
        lambda function, value, _ctx: function.total.value().amount + value,
        lambda function, value, _ctx: function.folded.get() < value,
    ):
        assert str(error_of(call)).endswith(
            "; a state that was never written gives None: write for example (state.value() or 0)"
        )


@pytest.mark.parametrize(
    ("call", "timestamp"),
    [
        (lambda _function, value, _ctx: value + 1, None),
        (lambda _function, value, ctx: ctx.timestamp() + value, 5),
        (lambda _function, _value, ctx: ctx.timestamp().bit_count + "x", 5),
    ],
    ids=["nothing of ours is None", "there is a timestamp", "no None at all"],
)
def test_nothing_is_hinted_at_that_is_not_so(call: Any, timestamp: int | None) -> None:
    """The message ends with the line of the user's code."""
    error = error_of(call, None, timestamp)
    assert (UserFunctionError, True) == (
        type(error),
        str(error).endswith(f"{line_of(call)}"),
    )


def test_an_error_of_ours_in_open_names_the_line() -> None:
    """There is no key and no element to name."""

    class Reads(Runs):
        def open(self, runtime_context: Any) -> None:
            super().open(runtime_context)
            self.total.value()

    with pytest.raises(PyflinklikeError) as raised:
        KeyedProcessHarness(Reads(str), key_selector=str)
    line = Reads.open.__code__.co_firstlineno + 2
    assert raised.value.__notes__[-1].endswith(f"Reads.open failed ({__file__}:{line}, in open)")
