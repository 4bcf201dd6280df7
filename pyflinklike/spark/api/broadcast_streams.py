# SPDX-License-Identifier: Apache-2.0
"""Broadcast state on DataFrames: `key_by(df, "user").connect(broadcast(rules, RULES)).process(...)`.

Both DataFrames are streams, or both are batches.  Each key group keeps a copy of the broadcast
state, so it is there whichever key group is called, and comes along with a savepoint to any number
of key groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from pyflinklike.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.backends.base import StateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark.broadcast_inputs import WithBroadcast
from pyflinklike.spark.inputs import OneInput
from pyflinklike.spark.operators import applied
from pyflinklike.spark.setup.checks import check_columns, check_function
from pyflinklike.spark.setup.event_time import has_watermark
from pyflinklike.spark.setup.options import SavepointLike
from pyflinklike.spark.setup.settings import check_watermark_policy, time_zone_of
from pyflinklike.spark.setup.two_inputs import check_both_stream
from pyflinklike.state.broadcast import broadcast_spec
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.types import Types

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "broadcast"]


def broadcast(
    df: DataFrame,
    *broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    event_time: str | None = None,
) -> BroadcastStream:
    """Have every parallel instance of a function see every record of a DataFrame.

    Args:
        df: Streaming or batch, with few records: each is carried to every key group.
        broadcast_state_descriptors: Of the maps that `process_broadcast_element` may change.
        event_time: A timestamp column: `ctx.timestamp()` gives it.  On a stream it has a watermark,
            and the function's is the smaller one of both inputs': without new rules no timer
            fires, as in Flink.  Without an event time, and without a watermark of its own, the
            broadcast input does not hold the timers back.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: There is no descriptor, two have one name, or entries would expire.
    """
    return BroadcastStream(df, broadcast_state_descriptors, event_time)


class BroadcastStream:
    """A DataFrame that is broadcast, to be connected with another one; made by `broadcast`."""

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
        """Of the broadcast states."""
        self.input = unkeyed(df, event_time, arrival_order=True)
        """The records."""


class BroadcastConnectedStream:
    """A DataFrame, keyed or not, and a broadcast one, which one function shall process.

    Made by `key_by(df, ...).connect(broadcast(...))` and by `connect(df, broadcast(...))`.
    """

    def __init__(self, main: Callable[..., OneInput], broadcast_stream: BroadcastStream) -> None:
        check_both_stream(main(None).df, broadcast_stream.input.df)
        self._main, self._broadcast = main, broadcast_stream

    def process(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_type: Any,
        *,
        event_time: str | None = None,
        state_backend: StateBackend | None = None,
        max_parallelism: int | None = None,
        uid: str | None = None,
        side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any] = (),
        job_parameters: Mapping[str, str] | None = None,
        processing_time_timers: bool | None = None,
        from_savepoint: SavepointLike | None = None,
        output_event_time: str | None = None,
        before_watermark: str | None = None,
        output_before_watermark: str | None = None,
        arrival_order: bool = False,
        allow_pickle: bool = True,
    ) -> DataFrame:
        """Apply a function to every record, and to every record of the broadcast input.

        In a micro-batch the broadcast input's records come first, in the order in which they
        arrived; in a batch all of them come before all others.  Each is processed once in every
        partition; one for which `apply_to_keyed_state` is called, once in every key group.

        Args:
            function: A `KeyedBroadcastProcessFunction`, or a `BroadcastProcessFunction` where the
                DataFrame is not keyed.  It is pickled to the workers and opened there.
            output_type: Of what it yields: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: A timestamp column of the DataFrame that is not broadcast.
            state_backend: As of `KeyedStream.process`, like all that follow.
            max_parallelism: Number of key groups, each of which has a copy of the broadcast state.
                Without keys it is the number of partitions by default.
            uid: Names the operator.
            side_outputs: The tags whose outputs are wanted.
            job_parameters: For `RuntimeContext.get_job_parameter`.
            processing_time_timers: Whether the function registers processing-time timers.
            from_savepoint: The state that a stream with a new checkpoint begins with.
            output_event_time: The column of the result that holds its event time.
            before_watermark: A column of the DataFrame that is not broadcast, as of
                `KeyedStream.process`, like all that follow.
            output_before_watermark: A column to add to the result.
            arrival_order: Whether records are processed as they arrived, as broadcast ones always
                are.
            allow_pickle: Whether state may be unpickled.

        Returns:
            The main output; with `side_outputs`, all outputs.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            HostError: The settings of the session rule it out, or the savepoint holds timers that
                the query could not fire.
            CorruptStateError, IncompatibleStateError: The savepoint cannot be restored.
        """
        main = self._main(
            event_time, before_watermark=before_watermark, arrival_order=arrival_order
        )
        source = WithBroadcast(main, self._broadcast.input)
        _check_kind(function, has_keys=bool(source.columns))
        if source.df.isStreaming and has_watermark(source.rules.df):
            check_watermark_policy(source.df.sparkSession)
        return applied(
            function,
            source,
            output_type,
            state_backend=state_backend,
            max_parallelism=max_parallelism,
            uid=uid,
            side_outputs=side_outputs,
            job_parameters=job_parameters,
            processing_time_timers=processing_time_timers,
            from_savepoint=from_savepoint,
            output_event_time=output_event_time,
            output_before_watermark=output_before_watermark,
            allow_pickle=allow_pickle,
            broadcast_states=self._broadcast.descriptors,
        )


def unkeyed(
    df: DataFrame,
    event_time: str | None,
    *,
    before_watermark: str | None = None,
    arrival_order: bool = False,
) -> OneInput:
    """The records of a DataFrame that have no keys.

    Args:
        df: Streaming or batch.
        event_time: Name of its event-time column, or None.
        before_watermark: Name of the column that says what came before the watermark, or None.
        arrival_order: Whether an event time leaves the records as they arrived.

    Raises:
        DeclarationTypeError, DeclarationValueError: The event time cannot be one.
    """
    zone = time_zone_of(df.sparkSession)
    options = {"before_watermark": before_watermark, "arrival_order": arrival_order}
    return OneInput.of(df, (), event_time, Types.LONG(), zone, **options)  # type: ignore[arg-type]


def _check_kind(function: Any, *, has_keys: bool) -> None:
    """See that a function has keys if the records have.

    Raises:
        DeclarationTypeError: It is of the other kind, or of none.
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
    check_function(function, wanted, "BroadcastConnectedStream")
