# SPDX-License-Identifier: Apache-2.0
"""The reader of a batch: from the offsets of `startingOffsets` to those of `endingOffsets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.bounds import resolved
from pyflinklike.kafka.cluster import Cluster
from pyflinklike.kafka.fetching import fetch
from pyflinklike.kafka.options import ReaderOptions
from pyflinklike.kafka.ranges import OffsetRange, split

__all__ = ["KafkaBatchReader"]


class KafkaBatchReader(DataSourceReader):
    """Reads the records that the topics have when the query is planned.

    Args:
        options: The options of the reader.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return a range of offsets for each task.

        Raises:
            DeclarationValueError: A partition would end before it starts.
            BrokerError: A broker does not answer.
        """
        cluster = Cluster(self._options)
        there = cluster.topics().partitions
        start = resolved(self._options.starting, there, cluster, "startingOffsets")
        end = resolved(self._options.ending, there, cluster, "endingOffsets")
        for (topic, number), offset in start.items():
            last = end[topic, number]
            if last < offset:
                msg = f"endingOffsets must not lie before startingOffsets, got {offset} to {last} for {topic}/{number}"
                raise DeclarationValueError(msg)
        ranges = [
            OffsetRange(*each, offset, end[each])
            for each, offset in start.items()
            if offset < end[each]
        ]
        return list(split(ranges, self._options.min_partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of a range; this runs in a task.

        Raises:
            DataLossError: Records are gone, and `failOnDataLoss` is set.
            BrokerError: The records cannot be read.
        """
        if isinstance(partition, OffsetRange):  # Spark plans one task where there are no ranges
            yield from fetch(partition, self._options)
