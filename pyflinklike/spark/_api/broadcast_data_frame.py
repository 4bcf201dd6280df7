# SPDX-License-Identifier: Apache-2.0
"""Broadcast state on DataFrames: `key_by(df, "user").connect(broadcast(rules, RULES)).process(...)`.

Both DataFrames are streams, or both are batches.  Each key group has a copy of the broadcast state.
So a function finds the state whichever key group Spark calls, and a savepoint carries it to any
number of key groups.  Without keys there is one key group for each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._checks import options_shown
from pyflinklike._type_vars import Unpack
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from pyflinklike.spark._api.connected_data_frames import check_both_stream
from pyflinklike.spark._api.inputs import SORT_TIME, InputOf, InputPair, OneInput
from pyflinklike.spark._api.query import apply_function
from pyflinklike.spark._plan.event_time import has_watermark
from pyflinklike.spark._plan.process_options import (
    KeyedProcessOptions,
    ProcessOptions,
    check_columns,
    check_function,
)
from pyflinklike.spark._plan.session import check_watermark_policy, time_zone_of
from pyflinklike.spark._wire.key_groups import group_or_hash, key_group
from pyflinklike.spark._wire.record_readers import BroadcastReader
from pyflinklike.spark._wire.system_columns import ARRIVAL, INPUT, KEY_GROUP
from pyflinklike.state.broadcast_state import broadcast_spec
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.types import Types


def broadcast(
    df: DataFrame,
    *broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    event_time: str | None = None,
) -> BroadcastDataFrame:
    """Have every parallel instance of a function see every record of a DataFrame.

    Example:
        ```python
        connected = key_by(payments, "user").connect(broadcast(rules, LIMITS))
        over = connected.process(OverLimit(), "user string, rule string")
        ```

    Args:
        df: A stream or a batch, with few records: each is carried to every key group.
        broadcast_state_descriptors: Descriptors of the maps that `process_broadcast_element` may
            change.
        event_time: A timestamp column, which `ctx.timestamp()` returns.  On a stream it gets a
            watermark, and the function sees the smaller watermark of both inputs: no timer fires
            without new rules, as in Flink.  If the broadcast input has neither an event time nor a
            watermark, it does not hold the timers back.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: There is no descriptor, two have one name, or entries would expire.
    """
    return BroadcastDataFrame(df, broadcast_state_descriptors, event_time)


class BroadcastDataFrame:
    """A broadcast DataFrame, to be connected with another one; made by `broadcast`."""

    def __init__(
        self,
        df: DataFrame,
        descriptors: tuple[MapStateDescriptor[Any, Any], ...],
        event_time: str | None,
    ) -> None:
        if not isinstance(df, DataFrame):
            msg = f"broadcast takes a Spark DataFrame, got {df!r}; read it into one"
            raise DeclarationTypeError(msg)
        check_columns(df)
        names = [broadcast_spec(each).name for each in descriptors]
        if not names or len(set(names)) < len(names):
            msg = (
                "broadcast takes the descriptor of at least one broadcast state, each of another "
                f"name, got {names}; write for example MapStateDescriptor('rules', Types.STRING(), "
                "Types.LONG())"
            )
            raise DeclarationValueError(msg)
        self.descriptors = descriptors
        """The descriptors that the function finds its broadcast states by."""
        self.input = make_unkeyed(df, ProcessOptions(event_time=event_time, arrival_order=True))
        """The records."""


class BroadcastConnectedDataFrame:
    """A DataFrame, keyed or not, and a broadcast one, for one function.

    Made by `key_by(df, ...).connect(broadcast(...))` and by `connect(df, broadcast(...))`.
    """

    def __init__(self, main: InputOf, broadcast_stream: BroadcastDataFrame) -> None:
        check_both_stream(main(ProcessOptions()).df, broadcast_stream.input.df)
        self._main, self._broadcast = main, broadcast_stream

    @options_shown(KeyedProcessOptions, ProcessOptions)
    def process(  # noqa: D417 - as shown, it has no `**options`
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_type: Any,
        **options: Unpack[KeyedProcessOptions],
    ) -> DataFrame:
        """Apply a function to every record, and to every record of the broadcast input.

        In a micro-batch the broadcast input's records come first, in the order in which they
        arrived; in a batch all of them come before all others.  Each is processed once in every
        partition, or once in every key group if `apply_to_keyed_state` is called for it.

        Args:
            function: A `KeyedBroadcastProcessFunction`, or a `BroadcastProcessFunction` if the
                DataFrame is not keyed.  It is pickled to the workers and opened there.
            output_type: The type of what it yields: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: A timestamp column of the DataFrame that is not broadcast.
            state_backend: As `KeyedDataFrame.process` takes it, like all options that follow.
            max_parallelism: Number of key groups; each has a copy of the broadcast state.
                Without keys it is the number of partitions by default.
            uid: The name of the operator in messages, metrics and its checkpoint.
            side_outputs: The tags whose outputs are wanted.
            job_parameters: Values for `RuntimeContext.get_job_parameter`, by name.
            processing_time_timers: Whether the function registers processing-time timers.
            from_savepoint: The state that a stream with a new checkpoint begins with.
            savepoint_to: The directory to which a batch writes its state.
            watermark_delay: How late records of the DataFrame that is not broadcast may be.
            output_event_time: The column of the result that holds its event time.
            before_watermark: A boolean column of the DataFrame that is not broadcast, true for
                records that come before the watermark.
            output_before_watermark: The name of such a column to add to the result.
            arrival_order: Whether records with an event time are processed as they arrived, as
                broadcast ones always are.
            allow_pickle: Whether state may be unpickled.

        Returns:
            The main output; with `side_outputs`, all outputs.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            SparkSetupError: The settings of the session rule it out, or the savepoint holds timers that
                the query could not fire.
            CorruptStateError, IncompatibleStateError: The savepoint cannot be restored.
        """
        given = ProcessOptions.of(options, KeyedProcessOptions)
        source = FrameWithBroadcast(self._main(given), self._broadcast.input)
        _check_kind(function, has_keys=bool(source.columns))
        if source.df.isStreaming and has_watermark(source.second.df):
            check_watermark_policy(source.df.sparkSession)
        return apply_function(function, source, output_type, given, self._broadcast.descriptors)


def make_unkeyed(df: DataFrame, options: ProcessOptions) -> OneInput:
    """Return the records of a DataFrame as an input without keys.

    Raises:
        DeclarationTypeError, DeclarationValueError: The event time cannot be one.
    """
    return OneInput.of(df, (), Types.LONG(), time_zone_of(df.sparkSession), options)


def _check_kind(function: Any, *, has_keys: bool) -> None:
    """Check that a function is for keyed records if the records are keyed.

    Raises:
        DeclarationTypeError: It is of the other kind, or of neither.
    """
    wanted, other = KeyedBroadcastProcessFunction, BroadcastProcessFunction
    if not has_keys:
        wanted, other = other, wanted  # type: ignore[assignment]
    if isinstance(function, other):
        remedy = "connect the DataFrame without key_by" if has_keys else "call key_by first"
        which = "non-keyed" if has_keys else "keyed"
        msg = (
            f"a {other.__name__} should be applied to a {which} DataFrame, got "
            f"{type(function).__qualname__}; {remedy}, or subclass {wanted.__name__}"
        )
        raise DeclarationTypeError(msg)
    check_function(function, wanted, "BroadcastConnectedDataFrame")


@attrs.frozen
class FrameWithBroadcast(InputPair):
    """An input, keyed or not, and as the second one a broadcast input."""

    @property
    def reader(self) -> BroadcastReader:
        """The reader of both inputs."""
        return BroadcastReader(self.first.reader, self.second.reader)

    def key_groups(self) -> Callable[[int], int]:
        """Return the default of one input; if there are no keys, one key group per partition."""
        return self.first.key_groups() if self.columns else _one_each

    def key_stream(self, max_parallelism: int | None) -> DataFrame:
        """Unite both inputs; packing gives a key group to records without one."""
        unknown = F.lit(None).cast("long" if max_parallelism is None else "int")
        group = group_or_hash(self.columns, max_parallelism) if self.columns else unknown
        return self._unite([group.alias(KEY_GROUP)], [unknown.alias(KEY_GROUP)])

    def key_batch(self, max_parallelism: int) -> DataFrame:
        """Unite the batches, with each broadcast record once for each key group."""
        arrival = F.monotonically_increasing_id()
        # Records without keys are dealt to the key groups in turn, so that all get as many.
        dealt = F.pmod(arrival, F.lit(max_parallelism)).cast("int")
        group = key_group(self.columns, max_parallelism) if self.columns else dealt
        time = self.first.time() if self.event_time else F.lit(None).cast("long")
        everyone = F.explode(F.sequence(F.lit(0), F.lit(max_parallelism - 1)))
        return self._unite(
            [group.alias(KEY_GROUP), time.alias(SORT_TIME), arrival.alias(ARRIVAL)],
            [
                everyone.alias(KEY_GROUP),
                F.lit(None).cast("long").alias(SORT_TIME),
                arrival.alias(ARRIVAL),
            ],
        )

    def order(self) -> list[Column]:
        """Sort the broadcast input first, in its own order; then by event time, and by arrival."""
        time = [] if self.first.arrival_order else [F.col(SORT_TIME)]
        return [F.col(INPUT).desc(), *time, F.col(ARRIVAL)]


def _one_each(partitions: int) -> int:
    """Count as many key groups as partitions."""
    return partitions
