# SPDX-License-Identifier: Apache-2.0
"""The options of operators over keyed DataFrames, and the checks of the arguments of `process`.

A method that makes an operator takes its options by keyword, as one of the TypedDicts here, so type
checkers and editors know each option.  `KeyedDataFrame.process` explains them.  The given options
become one `ProcessOptions`, and only that class has the defaults.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import attrs
from pyspark import cloudpickle
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from pyflinklike._checks import collect, is_int
from pyflinklike._messages import instance_of, short_repr, shown_message
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.code_search import warn_of_slips
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.spark._wire.system_columns import (
    ARRIVAL,
    BATCH_TIME,
    BEFORE_WATERMARK,
    KEY_GROUP,
    LAST_WATERMARK,
)
from pyflinklike.state.fold_functions import Function, check_methods

SavepointLike = bytes | str | os.PathLike[str] | Mapping[str, DataFrame]
"""The bytes of a savepoint, its directory, or a `Savepoint`, which is a mapping."""
SideOutputs = Iterable[OutputTag] | Mapping[OutputTag, Any]
"""The tags whose outputs are wanted, or the type of each."""
EventTimes = str | tuple[str, str]
"""The name of a column of both inputs, or a pair of names."""


class CommonOptions(TypedDict, total=False):
    """The options of every operator."""

    state_backend: StateBackend | None
    max_parallelism: int | None
    uid: str | None
    job_parameters: Mapping[str, str] | None
    from_savepoint: SavepointLike | None
    savepoint_to: str | os.PathLike[str] | None
    watermark_delay: str | None
    output_before_watermark: str | None
    allow_pickle: bool
    on_error: DeadLetters | None
    drop_states: Iterable[str]


class KeyedOptions(CommonOptions, total=False):
    """The options of operators over one input, such as windows."""

    event_time: str | None
    before_watermark: str | None
    arrival_order: bool


class ElementOptions(KeyedOptions, total=False):
    """The options of operators over one input that do not set the time of their results."""

    output_event_time: str | None


class KeyedProcessOptions(ElementOptions, total=False):
    """The options of `process` over one input."""

    side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any]
    processing_time_timers: bool | None


class TwoInputOptions(CommonOptions, total=False):
    """The options of operators over two inputs."""

    event_time: EventTimes | None
    before_watermark: EventTimes | None
    arrival_order: bool


class TwoInputProcessOptions(TwoInputOptions, total=False):
    """The options of `process` over two inputs."""

    side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any]
    processing_time_timers: bool | None
    output_event_time: str | None


@attrs.frozen(kw_only=True)
class ProcessOptions:
    """The options of one operator, in the order in which signatures show them."""

    event_time: Any = None
    """A name; for two inputs also a pair of names.  The TypedDicts say which one is allowed."""
    state_backend: StateBackend | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    side_outputs: SideOutputs = ()
    job_parameters: Mapping[str, str] | None = None
    processing_time_timers: bool | None = None
    from_savepoint: SavepointLike | None = None
    savepoint_to: str | os.PathLike[str] | None = None
    watermark_delay: str | None = None
    output_event_time: str | None = None
    before_watermark: Any = None
    """A name, or a pair of names as for `event_time`."""
    output_before_watermark: str | None = None
    arrival_order: bool = False
    allow_pickle: bool = True
    on_error: DeadLetters | None = None
    drop_states: Iterable[str] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any], allowed: type) -> ProcessOptions:
        """Collect the options of one call of a method.

        Args:
            options: The given options by name.
            allowed: The TypedDict of the options that the method takes.

        Raises:
            DeclarationTypeError: An option is not one of them.
        """
        return collect(cls, options, allowed)


MAX_KEY_GROUPS = 32_768
"""The greatest number of key groups: Flink's limit for the parallelism."""
_dumps: Any = cloudpickle.dumps


def check_column(df: DataFrame, column: Any, what: str) -> None:
    """Check that a DataFrame has a column.

    Raises:
        DeclarationTypeError, DeclarationValueError: It does not, or the name is not a str.
    """
    if not isinstance(column, str):
        remedy = "add it with withColumn first"
        if isinstance(column, (list, tuple)):
            names = ", ".join(map(repr, column))
            remedy = f"write key_by(df, {names})" if what == "key_by" else "give one name"
        msg = f"{what} takes the name of a column, got {column!r}; {remedy}"
        raise DeclarationTypeError(msg)
    if column not in df.columns:
        msg = f"{what} takes a column of the DataFrame, got {column!r}; choose from {df.columns}"
        raise DeclarationValueError(msg)


def check_columns(df: DataFrame) -> None:
    """Check that the columns of a DataFrame can be carried to a function.

    Raises:
        DeclarationValueError: A name belongs to a system column, or Spark cannot take it.
    """
    own = {KEY_GROUP, BATCH_TIME, ARRIVAL, BEFORE_WATERMARK, LAST_WATERMARK}
    reserved = own & set(df.columns)
    if reserved:
        msg = f"columns {sorted(reserved)} are system columns, got them in {df.columns}"
        raise DeclarationValueError(f"{msg}; rename them")
    unusable = [name for name in df.columns if "." in name or "`" in name]
    if unusable:
        msg = (
            f"Spark's mapInArrow takes no column with a dot or a backtick in its name, "
            f"got {unusable}; rename them"
        )
        raise DeclarationValueError(msg)


def check_max_parallelism(value: Any) -> None:
    """Check that a number of key groups is in Flink's range.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is not.
    """
    if not is_int(value):
        msg = f"max_parallelism must be an int, got {short_repr(value)}"
        raise DeclarationTypeError(msg)
    if not 1 <= value <= MAX_KEY_GROUPS:
        msg = f"max_parallelism must be in 1..{MAX_KEY_GROUPS}, got {short_repr(value)}"
        raise DeclarationValueError(msg)


def check_dropped(
    names: Any, savepoint: SavepointLike | None, *, is_streaming: bool
) -> tuple[str, ...]:
    """Return the names of the states that a stream drops.

    Raises:
        DeclarationTypeError: It is not a list of names.
        DeclarationValueError: The query does not continue from a checkpoint.
    """
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        msg = f"drop_states takes a list of names, got {short_repr(names)}"
        raise DeclarationTypeError(f'{msg}; write drop_states=["old"]')
    found = tuple(dict.fromkeys(names))
    for name in found:
        if not isinstance(name, str) or not name:
            msg = f"drop_states takes names of states, got {short_repr(name)}"
            raise DeclarationTypeError(f'{msg}; write drop_states=["old"]')
    if found and not is_streaming:
        msg = f"drop_states takes states out of a stream's checkpoint, got {list(found)} in a batch"
        raise DeclarationValueError(f"{msg}, which has no checkpoint; leave it out")
    if found and savepoint is not None:
        msg = (
            f"drop_states takes states out of the checkpoint, got {list(found)} and from_savepoint"
        )
        raise DeclarationValueError(
            f"{msg}; leave from_savepoint out if the checkpoint exists, and for a new one pass "
            "from_savepoint=Savepoint.read(spark, ...).remove_state(...)"
        )
    return found


def check_backend(state_backend: Any) -> StateBackend:
    """Return a state backend if it is one.

    Raises:
        DeclarationTypeError: It is not a state backend.
    """
    if not isinstance(state_backend, StateBackend):
        remedy = instance_of(StateBackend, state_backend, "for example HashMapStateBackend()")
        msg = f"state_backend must be a StateBackend, got {short_repr(state_backend)}; {remedy}"
        raise DeclarationTypeError(msg)
    return state_backend


def check_function(
    function: Any,
    kind: type | tuple[type, ...] = KeyedProcessFunction,
    stream: str = "KeyedDataFrame",
) -> None:
    """Check that a function is of the kind that a stream takes.

    Args:
        function: The object that the user gave as a function.
        kind: The class that it must have, or several to choose from.
        stream: The name of the stream's class, for messages.

    Raises:
        DeclarationTypeError: It is not.
    """
    if not isinstance(function, kind):
        remedy = instance_of(kind, function, "subclass it")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(each.__name__ for each in kinds)
        msg = f"{names} is required for {stream}, got {short_repr(function)}; {remedy}"
        raise DeclarationTypeError(msg)
    check_methods(function)
    warn_of_slips(function)


def check_pickle(function: Function) -> None:
    """Check that a function can reach the workers.

    Raises:
        DeclarationError: It does not pickle; the message names the attribute that does not.
    """
    try:
        _dumps(function)
    except Exception as error:
        held = ", ".join(
            f"{name}={short_repr(value)}"
            for name, value in vars(function).items()
            if not _pickles(value)
        )
        # Without such an attribute, a global or a closure of the function is to blame.
        where = f"its attribute {held}" if held else "the globals and closures that it uses"
        msg = (
            f"a function must pickle to reach the workers, got {type(function).__qualname__} "
            f"whose pickling fails ({shown_message(error)}): look at {where}; "
            "make such things in open(), which runs on the worker"
        )
        raise DeclarationError(msg) from error


def holds_accumulators(function: Function) -> bool:
    """Return whether a function holds accumulators of Spark, which belong to a single task."""
    finder: Any = _AccumulatorFinder
    pickler = finder(io.BytesIO())
    pickler.dump(function)
    found: bool = pickler.found
    return found


class _AccumulatorFinder(cloudpickle.CloudPickler):  # type: ignore[misc, unused-ignore]
    found = False

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Accumulator):
            self.found = True
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _pickles(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:
        return False
    return True
