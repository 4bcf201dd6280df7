# SPDX-License-Identifier: Apache-2.0
"""The keyed records of an operator, from one DataFrame or from two.

`_api.query` makes a query from any of them, so every difference between them is here.  If there are
two inputs, each has its own watermark below the union, and the query takes the smaller one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike.spark._api.results import mark_phases
from pyflinklike.spark._plan.event_time import delay_of, find_delay, with_event_time
from pyflinklike.spark._plan.process_options import ProcessOptions
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE, max_parallelism_for
from pyflinklike.spark._wire.key_groups import group_or_hash
from pyflinklike.spark._wire.record_readers import ConnectedReader, Reader, RecordReader
from pyflinklike.spark._wire.system_columns import (
    ARRIVAL,
    BEFORE_WATERMARK,
    INPUT,
    INPUTS,
    KEY_GROUP,
    quote,
)
from pyflinklike.types import TypeInformation

SORT_TIME = "__time"
"""The column that sorts a batch of several inputs: the event time of each record in ms."""


@attrs.frozen
class OneInput:
    """The records of one keyed DataFrame.

    Args:
        df: The DataFrame with its watermark.
        columns: Names of its key columns.
        event_time: Name of its event-time column, or None.
        key_type: The type of the keys.
        time_zone: The time zone of the Spark session.
        before_watermark: Name of the column that is true for records that come before the
            watermark of their micro-batch, or None.
        arrival_order: Whether records stay as they arrived, although they have an event time.
        delay: How late records may be, in ms; None if the stream does not show its delay.
    """

    df: DataFrame
    columns: tuple[str, ...]
    event_time: str | None
    key_type: TypeInformation
    time_zone: str
    before_watermark: str | None = None
    arrival_order: bool = False
    delay: int | None = None

    @classmethod
    def of(
        cls,
        df: DataFrame,
        columns: tuple[str, ...],
        key_type: TypeInformation,
        time_zone: str,
        options: ProcessOptions,
    ) -> OneInput:
        """Make the input; a stream with an event time and without a watermark gets one.

        Behind another operator it has a column that says which records come before the watermark.

        Raises:
            DeclarationTypeError, DeclarationValueError: The column cannot be an event time, or
                the column that says which records come before the watermark is missing.
        """
        event_time, late = options.event_time, options.watermark_delay
        delay = delay_of(late)
        df, before = mark_phases(
            df, options.before_watermark, watermarks_pass=HAS_TRANSFORM_WITH_STATE
        )
        if event_time is not None:
            df = with_event_time(df, event_time, before, late)
        known = find_delay(df, event_time) if df.isStreaming else delay
        arrival = options.arrival_order
        return cls(df, columns, event_time, key_type, time_zone, before, arrival, known)

    def element_schema(self) -> st.StructType:
        """Return the columns of a record that a function sees."""
        fields = self.df.schema.fields
        return st.StructType([each for each in fields if each.name != BEFORE_WATERMARK])

    def key_names(self) -> tuple[str, ...]:
        """Name the key columns for a checkpoint, which refuses a program with other names."""
        return self.columns

    def key_groups(self) -> Callable[[int], int]:
        """Return the function from partitions to key groups, for a user who gives no number.

        The default is a small multiple of the partitions.
        """
        return max_parallelism_for

    def key_fields(self) -> list[st.StructField]:
        """Return the key columns of the result."""
        return [self.df.schema[column] for column in self.columns]

    @property
    def reader(self) -> RecordReader:
        """The reader of the records."""
        return RecordReader(
            self.columns,
            self.event_time,
            self.key_type,
            self.time_zone,
            arrival_order=self.arrival_order,
            before_watermark=self.before_watermark,
        )

    def key_stream(self, max_parallelism: int | None) -> DataFrame:
        """Put the key group of each record of a stream into a first column.

        Args:
            max_parallelism: The number of key groups.  None if only the tasks know it; then the
                column has hashes, and their remainders are the key groups.
        """
        return self.df.select(group_or_hash(self.columns, max_parallelism).alias(KEY_GROUP), "*")

    def key_batch(self, max_parallelism: int) -> DataFrame:
        """Do the same for a batch, with the position of each record in its task in a last column."""
        return self.key_stream(max_parallelism).withColumn(ARRIVAL, F.monotonically_increasing_id())

    def event_times(self) -> list[tuple[Column, Column]]:
        """Return two columns for each of several inputs: whether a record is of it, and its time in ms.

        The list is empty for one input, and if an input has no event time.
        """
        return []

    def order(self) -> list[Column]:
        """Sort by event time; records of equal times stay as they arrived."""
        arrival = F.col(ARRIVAL)
        # In ms, as `ctx.timestamp()` has it and a stream sorts: records of one ms stay as they came.
        is_sorted = self.event_time is not None and not self.arrival_order
        return [self.time(), arrival] if is_sorted else [arrival]

    def time(self) -> Column:
        """Return the event time of a record in ms; the input must have one."""
        assert self.event_time is not None
        return F.unix_millis(quote(self.event_time))

    def name_sorting_columns(self) -> tuple[str, ...]:
        """Name the columns of a batch that only its order needs."""
        return (ARRIVAL,)

    def inputs(self) -> tuple[OneInput, ...]:
        """Return the inputs, a broadcast one last."""
        return (self,)


InputOf = Callable[[ProcessOptions], OneInput]
"""Makes the input of a keyed DataFrame, for the options of an operator."""


@attrs.frozen
class InputPair(ABC):
    """The base of two DataFrames as one; the first input has the keys.

    Args:
        first: The input whose key columns the result has.
        second: The other input.
    """

    first: OneInput
    second: OneInput

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """The reader of both inputs."""

    @abstractmethod
    def key_stream(self, max_parallelism: int | None) -> DataFrame:
        """Unite both inputs, with the key group or the hash of each record in a first column."""

    @abstractmethod
    def key_batch(self, max_parallelism: int) -> DataFrame:
        """Unite both batches, with the columns that sort them."""

    @abstractmethod
    def order(self) -> list[Column]:
        """Return the columns that sort a key group of a batch."""

    @property
    def df(self) -> DataFrame:
        """The first input."""
        return self.first.df

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the key columns of the first input."""
        return self.first.columns

    @property
    def event_time(self) -> str | None:
        """Name of the event-time column of the first input."""
        return self.first.event_time

    def key_fields(self) -> list[st.StructField]:
        """Return the key columns of the first input with their types."""
        return self.first.key_fields()

    def key_names(self) -> tuple[str, ...]:
        """Return the names of the key columns."""
        return self.columns

    def key_groups(self) -> Callable[[int], int]:
        """Return the default of one input."""
        return self.first.key_groups()

    def event_times(self) -> list[tuple[Column, Column]]:
        """Return which records are of each input, and their times, if both have event time."""
        # Without two event times there is no slower input: the watermark waits for one at most.
        if any(each.event_time is None for each in self.inputs()):
            return []
        return [
            (
                F.col(INPUT) == F.lit(number),
                F.unix_millis(F.col(INPUTS[number - 1])[each.event_time]),
            )
            for number, each in enumerate(self.inputs(), 1)
        ]

    def name_sorting_columns(self) -> tuple[str, ...]:
        """Name the columns of a batch that only its order needs."""
        return (SORT_TIME, ARRIVAL)

    def inputs(self) -> tuple[OneInput, ...]:
        """Return both."""
        return self.first, self.second

    def _unite(self, *columns: Sequence[Column]) -> DataFrame:
        """Unite the inputs; each row has the number of its input, and its record as a struct.

        Args:
            columns: Further columns of each input, under the same names.
        """
        first, second = (self._tag(number, columns[number]) for number in range(2))
        return first.unionByName(second)

    def _tag(self, number: int, columns: Sequence[Column]) -> DataFrame:
        frames = [each.df for each in self.inputs()]
        mine, other = frames[number], frames[1 - number]
        record = F.struct(*(quote(name) for name in mine.columns))
        return mine.select(
            *columns,
            F.lit(number + 1).cast("byte").alias(INPUT),
            record.alias(INPUTS[number]),
            F.lit(None).cast(other.schema).alias(INPUTS[1 - number]),
        )


Input = OneInput | InputPair
"""The records that an operator processes."""


@attrs.frozen
class TwoFrames(InputPair):
    """The records of two keyed DataFrames, with keys of the same type."""

    def key_names(self) -> tuple[str, ...]:
        """Name the key columns; if the inputs differ in a name, give both."""
        pairs = zip(self.first.columns, self.second.columns)
        return tuple(one if one == other else f"{one} = {other}" for one, other in pairs)

    @property
    def reader(self) -> ConnectedReader:
        """The reader of both inputs."""
        return ConnectedReader((self.first.reader, self.second.reader))

    def key_stream(self, max_parallelism: int | None) -> DataFrame:
        """Unite both inputs, with the key group or the hash of each record in a first column."""
        return self._unite_keyed(max_parallelism, [], [])

    def key_batch(self, max_parallelism: int) -> DataFrame:
        """Do the same, with the columns that sort a batch."""
        arrival = F.monotonically_increasing_id().alias(ARRIVAL)
        extra = [
            [each.time().alias(SORT_TIME)] if each.event_time else [] for each in self.inputs()
        ]
        return self._unite_keyed(max_parallelism, [*extra[0], arrival], [*extra[1], arrival])

    def _unite_keyed(self, max_parallelism: int | None, *extra: list[Column]) -> DataFrame:
        groups = [group_or_hash(each.columns, max_parallelism) for each in self.inputs()]
        return self._unite(*([group.alias(KEY_GROUP), *more] for group, more in zip(groups, extra)))

    def order(self) -> list[Column]:
        """Sort by event time if the inputs have one, then the first input first, then by arrival."""
        is_sorted = self.event_time is not None and not self.first.arrival_order
        names = [SORT_TIME] if is_sorted else []
        return [F.col(name) for name in (*names, INPUT, ARRIVAL)]
