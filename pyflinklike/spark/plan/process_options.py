# SPDX-License-Identifier: Apache-2.0
"""What every operator over a keyed DataFrame can be told besides what it computes.

Checks of the arguments of `process`, before a query starts.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, TypedDict

from pyspark import cloudpickle
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from pyflinklike.engine.api.process_functions import KeyedProcessFunction
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.checks import is_int
from pyflinklike.engine.functions import Function
from pyflinklike.engine.shown import instance_of, shown, shown_message
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.spark.wire.own_columns import ARRIVAL, BATCH_TIME, BEFORE_WATERMARK, KEY_GROUP

__all__ = [
    "MAX_KEY_GROUPS",
    "CommonOptions",
    "KeyedOptions",
    "OperatorOptions",
    "SavepointLike",
    "check_column",
    "check_columns",
    "check_function",
    "check_max_parallelism",
    "check_pickle",
    "checked_backend",
    "holds_accumulators",
]


SavepointLike = bytes | str | os.PathLike[str] | Mapping[str, DataFrame]
"""The bytes of a savepoint, its directory, or a `Savepoint`, which is a mapping."""


class CommonOptions(TypedDict, total=False):
    """The keyword arguments that operators pass on to `KeyedStream.process`, which explains them.

    Args:
        state_backend: Where working state is kept.
        max_parallelism: Number of key groups.
        uid: Names the operator.
        job_parameters: For `RuntimeContext.get_job_parameter`.
        from_savepoint: What a stream begins with.
        allow_pickle: Whether state may be unpickled.
    """

    state_backend: StateBackend | None
    max_parallelism: int | None
    uid: str | None
    job_parameters: Mapping[str, str] | None
    from_savepoint: SavepointLike | None
    allow_pickle: bool


class OperatorOptions(CommonOptions, total=False):
    """The same with event time, for operators that also run without it.

    Args:
        event_time: Name of a timestamp column.
    """

    event_time: str | None


class KeyedOptions(OperatorOptions, total=False):
    """Those of operators over one input.

    Args:
        before_watermark: Name of a boolean column: what came before the watermark.
        output_before_watermark: Name of such a column to add to the result.
        arrival_order: Whether records with an event time are processed as they arrived.
    """

    before_watermark: str | None
    output_before_watermark: str | None
    arrival_order: bool


MAX_KEY_GROUPS = 32_768
"""As in Flink."""
_dumps: Any = cloudpickle.dumps


def check_column(df: DataFrame, column: Any, what: str) -> None:
    """See that a DataFrame has a column.

    Raises:
        DeclarationTypeError, DeclarationValueError: It does not, or the name is not a str.
    """
    if not isinstance(column, str):
        msg = f"{what} takes the name of a column, got {column!r}; add it with withColumn first"
        raise DeclarationTypeError(msg)
    if column not in df.columns:
        msg = f"{what} takes a column of the DataFrame, got {column!r}; choose from {df.columns}"
        raise DeclarationValueError(msg)


def check_columns(df: DataFrame) -> None:
    """See that a DataFrame's columns can be carried to a function.

    Raises:
        DeclarationValueError: One has a name that is the runtime's own, or that Spark cannot take.
    """
    reserved = {KEY_GROUP, BATCH_TIME, ARRIVAL, BEFORE_WATERMARK} & set(df.columns)
    if reserved:
        msg = f"columns {sorted(reserved)} are the runtime's own, got them in {df.columns}"
        raise DeclarationValueError(f"{msg}; rename them")
    unusable = [name for name in df.columns if "." in name or "`" in name]
    if unusable:
        msg = (
            f"Spark's mapInArrow takes no column with a dot or a backtick in its name, "
            f"got {unusable}; rename them"
        )
        raise DeclarationValueError(msg)


def check_max_parallelism(value: Any) -> None:
    """See that a number of key groups is in Flink's range.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is not.
    """
    if not is_int(value):
        msg = f"max_parallelism must be an int, got {shown(value)}"
        raise DeclarationTypeError(msg)
    if not 1 <= value <= MAX_KEY_GROUPS:
        msg = f"max_parallelism must be in 1..{MAX_KEY_GROUPS}, got {shown(value)}"
        raise DeclarationValueError(msg)


def checked_backend(state_backend: Any) -> StateBackend:
    """The backend itself.

    Raises:
        DeclarationTypeError: It is not a state backend.
    """
    if not isinstance(state_backend, StateBackend):
        remedy = instance_of(StateBackend, state_backend, "for example HashMapStateBackend()")
        msg = f"state_backend must be a StateBackend, got {shown(state_backend)}; {remedy}"
        raise DeclarationTypeError(msg)
    return state_backend


def check_function(
    function: Any,
    kind: type | tuple[type, ...] = KeyedProcessFunction,
    stream: str = "KeyedStream",
) -> None:
    """See that a function is of the kind that a stream takes.

    Args:
        function: The user's.
        kind: Its class must be a subclass of this one, or of one of these.
        stream: The name of the stream's class.

    Raises:
        DeclarationTypeError: It is not.
    """
    if not isinstance(function, kind):
        remedy = instance_of(kind, function, "subclass it")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(each.__name__ for each in kinds)
        msg = f"{names} is required for {stream}, got {shown(function)}; {remedy}"
        raise DeclarationTypeError(msg)


def check_pickle(function: Function) -> None:
    """See that a function can reach the workers.

    Raises:
        DeclarationError: It does not pickle; the message names the attribute that does not.
    """
    try:
        _dumps(function)
    except Exception as error:
        held = ", ".join(
            f"{name}={shown(value)}"
            for name, value in vars(function).items()
            if not _pickles(value)
        )
        where = f"its attribute {held}" if held else "what it refers to"
        msg = (
            f"a function must pickle to reach the workers, got {type(function).__qualname__} "
            f"whose pickling fails ({shown_message(error)}): look at {where}; "
            "make such things in open(), which runs on the worker"
        )
        raise DeclarationError(msg) from error


def holds_accumulators(function: Function) -> bool:
    """Whether a function holds accumulators of Spark, which belong to the task they came with."""
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
