# SPDX-License-Identifier: Apache-2.0
"""The records of an operator with a broadcast input, as one DataFrame: `wire.broadcast_records`."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark.inputs import OneInput, times_of, united
from pyflinklike.spark.wire.broadcast_records import BroadcastReader
from pyflinklike.spark.wire.key_hash import group_or_hash, key_group
from pyflinklike.spark.wire.names import ARRIVAL, INPUT, KEY_GROUP

__all__ = ["WithBroadcast"]

_TIME = "__time"
"""The event time of a record in ms, while a batch is sorted."""


@attrs.frozen
class WithBroadcast:
    """The records of an input, keyed or not, and of a broadcast input.

    Args:
        main: The input that is not broadcast; without key columns where it has no keys.
        rules: The broadcast input, without key columns.
    """

    main: OneInput
    rules: OneInput

    @property
    def df(self) -> DataFrame:
        """The input that is not broadcast."""
        return self.main.df

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its key columns; none where it has no keys."""
        return self.main.columns

    @property
    def event_time(self) -> str | None:
        """Name of its event-time column."""
        return self.main.event_time

    @property
    def reader(self) -> BroadcastReader:
        """Reads the records of both."""
        return BroadcastReader(self.main.reader, self.rules.reader)

    def key_names(self) -> tuple[str, ...]:
        """Their names."""
        return self.columns

    def key_groups(self) -> Callable[[int], int]:
        """As of one input; without keys one for each of the partitions."""
        return self.main.key_groups() if self.columns else _one_each

    def keyed(self, max_parallelism: int | None) -> DataFrame:
        """The records of both; those without a key group get one where they are packed."""
        unknown = F.lit(None).cast("long" if max_parallelism is None else "int")
        group = group_or_hash(self.columns, max_parallelism) if self.columns else unknown
        return self._united([group.alias(KEY_GROUP)], [unknown.alias(KEY_GROUP)])

    def arrived(self, max_parallelism: int) -> DataFrame:
        """The records of a batch, those of the broadcast input once for each key group."""
        arrival = F.monotonically_increasing_id()
        dealt = F.pmod(arrival, F.lit(max_parallelism)).cast("int")
        group = key_group(self.columns, max_parallelism) if self.columns else dealt
        time = self.main.time() if self.event_time else F.lit(None).cast("long")
        everyone = F.explode(F.sequence(F.lit(0), F.lit(max_parallelism - 1)))
        return self._united(
            [group.alias(KEY_GROUP), time.alias(_TIME), arrival.alias(ARRIVAL)],
            [
                everyone.alias(KEY_GROUP),
                F.lit(None).cast("long").alias(_TIME),
                arrival.alias(ARRIVAL),
            ],
        )

    def event_times(self) -> list[tuple[Column, Column]]:
        """Of both inputs, where they have event time."""
        return times_of((self.main, self.rules))

    def order(self) -> list[Column]:
        """The broadcast input first, in its own order; then by event time, and by arrival."""
        time = [] if self.main.arrival_order else [F.col(_TIME)]
        return [F.col(INPUT).desc(), *time, F.col(ARRIVAL)]

    def sorting_columns(self) -> tuple[str, ...]:
        """Columns of a batch that only its order needs."""
        return (_TIME, ARRIVAL)

    def _united(self, main: list[Column], rules: list[Column]) -> DataFrame:
        return united((self.main.df, self.rules.df), [main, rules])


def _one_each(partitions: int) -> int:
    """As many key groups as partitions."""
    return partitions
