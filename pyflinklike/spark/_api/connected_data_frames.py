# SPDX-License-Identifier: Apache-2.0
"""Two keyed DataFrames that one function processes, and the checks of such inputs.

One operator processes the records of both, with one state and one set of timers.  Its watermark is
the smaller watermark of the two inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._checks import options_shown
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import Unpack
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.process_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.spark._api.inputs import InputOf, TwoFrames
from pyflinklike.spark._api.query import apply_function
from pyflinklike.spark._plan.process_options import (
    ProcessOptions,
    TwoInputOptions,
    TwoInputProcessOptions,
    check_function,
)
from pyflinklike.spark._plan.session import check_watermark_policy
from pyflinklike.state.fold_functions import Function


class KeyedConnectedDataFrames:
    """Two keyed DataFrames for one function.

    Made by `connect(a, b).key_by(...)` and by `key_by(a, ...).connect(key_by(b, ...))`.
    """

    def __init__(self, first: InputOf, second: InputOf) -> None:
        inputs = first(ProcessOptions()), second(ProcessOptions())
        check_both_stream(*(each.df for each in inputs))
        _check_keys_alike(*(each.key_fields() for each in inputs))
        self._first, self._second = first, second

    @options_shown(TwoInputProcessOptions, ProcessOptions)
    def process(  # noqa: D417 - as shown, it has no `**options`
        self,
        function: KeyedCoProcessFunction,
        output_type: Any,
        **options: Unpack[TwoInputProcessOptions],
    ) -> DataFrame:
        """Apply a function to every record of both inputs, with state and timers per key.

        There is no order between the inputs, as in Flink.  Within a micro-batch the records of both
        are processed by event time.  If they have no event time, the first input comes first.

        Args:
            function: The function, which is pickled to the workers and opened there.
            output_type: The type of what it yields: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: The timestamp column of both inputs, or a pair of names; `ctx.timestamp()`
                and event timers need it.  A stream without a watermark gets one on this column.
                The function sees the smaller watermark of both inputs, so an input without
                records holds the timers back, as in Flink.
            state_backend: As `KeyedDataFrame.process` takes it, like all options that follow.
            max_parallelism: Number of key groups.
            uid: The name of the operator in messages, metrics and its checkpoint.
            side_outputs: The tags whose outputs are wanted.
            job_parameters: Values for `RuntimeContext.get_job_parameter`, by name.
            processing_time_timers: Whether the function registers processing-time timers.
            from_savepoint: The state that a stream with a new checkpoint begins with.
            savepoint_to: The directory to which a batch writes its state.
            watermark_delay: How late records of both inputs may be.
            output_event_time: The column of the result that holds its event time; by default a
                timestamp column with the name of the first input's.
            before_watermark: A boolean column of both inputs, or a pair of names (None for an input
                without such a column), as `KeyedDataFrame.process` takes it.
            output_before_watermark: The name of a column to add to the result, true for outputs
                that came before the watermark.
            arrival_order: Whether records with an event time keep their order of arrival instead
                of being sorted; within a micro-batch the first input then comes first.
            allow_pickle: Whether state may be unpickled.

        Returns:
            The main output; with `side_outputs`, all outputs.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            SparkSetupError: The settings of the session rule it out, or the savepoint holds timers that
                the query could not fire.
            CorruptStateError, IncompatibleStateError: The savepoint cannot be restored.
        """
        check_function(function, KeyedCoProcessFunction, "KeyedConnectedDataFrames.process")
        given = ProcessOptions.of(options, TwoInputProcessOptions)
        return apply_function(
            function, connect(self._first, self._second, given), output_type, given
        )

    def map(
        self, function: CoMapFunction, output_type: Any, **options: Unpack[TwoInputOptions]
    ) -> DataFrame:
        """Make at most one output of each record of both inputs; None is no output.

        Args:
            function: The function, which is pickled to the workers and opened there.
            output_type: The type of the outputs, as `process` takes it.
            **options: The options of `process`, without side outputs, processing-time timers and
                `output_event_time`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        check_function(function, CoMapFunction, "KeyedConnectedDataFrames.map")
        return self._map(function, output_type, options)

    def flat_map(
        self, function: CoFlatMapFunction, output_type: Any, **options: Unpack[TwoInputOptions]
    ) -> DataFrame:
        """Make any number of outputs of each record of both inputs.

        Args:
            function: The function, which is pickled to the workers and opened there.
            output_type: The type of the outputs, as `process` takes it.
            **options: The options of `process`, without side outputs, processing-time timers and
                `output_event_time`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        check_function(function, CoFlatMapFunction, "KeyedConnectedDataFrames.flat_map")
        return self._map(function, output_type, options)

    def _map(self, function: Function, output_type: Any, options: TwoInputOptions) -> DataFrame:
        given = ProcessOptions.of(options, TwoInputOptions)
        given = attrs.evolve(given, processing_time_timers=False)
        return apply_function(
            function, connect(self._first, self._second, given), output_type, given
        )


def connect(first: InputOf, second: InputOf, options: ProcessOptions) -> TwoFrames:
    """Make one input of two keyed DataFrames.

    Raises:
        DeclarationTypeError, DeclarationValueError: A column cannot be the event time, or cannot
            say which records come before the watermark.
        SparkSetupError: The session's watermark would be the greater one of both.
    """
    slower = "give a column for each input, because the slower one makes the watermark"
    times = _pair_of("event_time", options.event_time, slower)
    behind = "give None for an input that is behind no operator"
    before = _pair_of("before_watermark", options.before_watermark, behind, optional=True)
    source = TwoFrames(
        *(
            each(attrs.evolve(options, event_time=time, before_watermark=phase))
            for each, time, phase in zip((first, second), times, before)
        )
    )
    if options.event_time is not None and source.df.isStreaming:
        check_watermark_policy(source.df.sparkSession)
    return source


def check_both_stream(first: DataFrame, second: DataFrame) -> None:
    """Check that two inputs are both streams or both batches.

    Raises:
        DeclarationValueError: One is a stream and the other is not.
    """
    if first.isStreaming is not second.isStreaming:
        kinds = ["a stream" if each.isStreaming else "a batch" for each in (first, second)]
        msg = (
            f"connected inputs are both streams or both batches, got {kinds[0]} and {kinds[1]}; "
            "read the batch as a stream, for example with spark.readStream and its schema"
        )
        raise DeclarationValueError(msg)


def _check_keys_alike(first: Sequence[st.StructField], second: Sequence[st.StructField]) -> None:
    """Check that the keys of two inputs have the same types.

    Args:
        first: The key columns of the first input.
        second: The key columns of the second input.

    Raises:
        DeclarationTypeError: The types differ.
    """
    # The hash that finds a key group depends on the types: an int and a long of one value
    # would be two keys.
    if [each.dataType for each in first] == [each.dataType for each in second]:
        return
    types = [
        ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in fields)
        for fields in (first, second)
    ]
    msg = (
        f"the keys of connected inputs must have the same types, got ({types[0]}) and "
        f"({types[1]}); cast the columns of one of them"
    )
    raise DeclarationTypeError(msg)


def _pair_of(option: str, given: Any, advice: str, *, optional: bool = False) -> tuple[Any, Any]:
    """Return the column of each input that an option names.

    Args:
        option: The name of the option.
        given: One name for both inputs, a pair of names, or None for no column.
        advice: The advice at the end of the message.
        optional: Whether one of a pair may be None.

    Raises:
        DeclarationTypeError: It is something else.
    """
    if given is None or isinstance(given, str):
        return given, given
    kinds = (str, type(None)) if optional else str
    pair = given if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(each, kinds) for each in pair):
        msg = (
            f"{option} takes the name of a column of both inputs or a pair of names, got {short_repr(given)}; "
            f"{advice}"
        )
        raise DeclarationTypeError(msg)
    return pair[0], pair[1]
