# SPDX-License-Identifier: Apache-2.0
"""The stream operators of a stage in one task: the local runner's, between entrances and exits.

Functions without keys behave on Spark as they do in the local runner, since these are the same classes.  Only the
ends of the graph differ: elements enter from rows of Spark, and leave as records for another stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource, Node, Partition
from pyflinklike.pyflink._local.keyed_stream_operators import OperatorStation, WaitingStation
from pyflinklike.pyflink._local.local_run import PASSED_ON, Wiring
from pyflinklike.pyflink._local.stream_operators import (
    Channel,
    Output,
    Send,
    SourceStation,
    StreamOperator,
    forward,
    nowhere,
)
from pyflinklike.pyflink._spark.stages import PythonStage, is_keyed
from pyflinklike.spark._wire.stage_records import Address
from pyflinklike.types.copies import as_given

__all__ = ["StageStations"]

Record = tuple[Any, Any, "int | None"]


class StageStations(Wiring):
    """The stream operators of a stage, one instance of each if no partitioning asks for more.

    Args:
        stage: The stage whose nodes are run.
        settings: The settings of the job.
        task: The number of the task, and the number of tasks.
    """

    def __init__(self, stage: PythonStage, settings: JobSettings, task: tuple[int, int]) -> None:
        self._stage, self._task_of = stage, task
        self._split: set[int] = set()
        self.outbox = Outbox()
        super().__init__(Job(stage.graph, settings))
        self._inputs: dict[tuple[int, int], Send] = {}
        self._waiting = [each for each in self.stations if isinstance(each, WaitingStation)]
        for station in self._waiting:
            station.hold()

    def open(self) -> None:
        """Open the functions."""
        for station in self.stations:
            station.open()

    def close(self) -> None:
        """Close the functions."""
        for station in self.stations:
            station.close()

    def abandon(self) -> None:
        """Close the functions after a failure."""
        for station in self.stations:
            if isinstance(station, OperatorStation):
                station.abandon()

    def tick(self, now: int) -> None:
        """Set the processing time, in ms."""
        for station in self.stations:
            station.tick(now)

    def source(self, number: int) -> SourceStation:
        """Return the stream operator that takes in the elements of a source."""
        station = self._instances[number][0]
        assert isinstance(station, SourceStation)
        return station

    def operator_exit(self, number: int) -> Output:
        """Return the output that takes in the outputs of a keyed operator before this stage."""
        station = self._instances[number][0]
        assert isinstance(station, _OperatorEntrance)
        return station.out

    def take_in(self, address: Address, records: list[Record]) -> None:
        """Process records from an earlier stage for a node of this one."""
        at = address.node, address.position
        if at not in self._inputs:
            # Made with the first records: a channel that gets no records would hold the watermark back.
            channels = [each.channel(at[1]) for each in self._instances[at[0]]]
            self._inputs[at] = forward(0, 1, [channel.element for channel in channels])
        element = self._inputs[at]
        for _, value, timestamp in records:
            element(value, timestamp)

    def settle(self) -> None:
        """Wait for async functions, one by one in the order of the graph."""
        for station in self._waiting:
            station.wait()

    def watermark(self) -> int:
        """Return the least watermark for keyed operators, in ms; the greatest possible if none of them waits."""
        found = [each.watermark for each in self.stations if isinstance(each, _ExitStation)]
        return min((each for each in found if each is not None), default=MAX_WATERMARK)

    def watermark_for(self, number: int) -> int:
        """Return the watermark of the elements for a keyed operator after this stage, in ms.

        Args:
            number: The number of the operator's node.
        """
        (station,) = self._instances[number]
        assert isinstance(station, _ExitStation)
        return MIN_WATERMARK if station.watermark is None else station.watermark

    def _number_of_instances(self, node: Node) -> int:
        """Return 1, since other tasks run the other instances, unless functions see a partitioning.

        In that case each task has all instances that were asked for, with their numbers.  So an element
        gets to the right instance, whichever task it is in.
        """
        inputs = [self._graph.nodes[each] for each in node.inputs if each in self._graph.nodes]
        before = max((self._parallelism[each.id] for each in inputs), default=1)
        is_split = any(isinstance(each, Partition) and each.is_seen for each in inputs)
        if is_split:
            is_split = not isinstance(node, PASSED_ON) and not is_keyed(node)
        if is_split or (before > 1 and node.id in self._stage.inner):
            self._split.add(node.id)
        if node.id not in self._split:
            return 1
        if isinstance(node, PASSED_ON):
            return before
        return node.parallelism or self._job.settings.parallelism or self._task_of[1]

    def _station(self, node: Node, index: int) -> StreamOperator:
        if isinstance(node, FromSource):
            return SourceStation(self._exit(node, index), iter(()), node.strategy)
        if node.id in self._stage.entrances:
            return _OperatorEntrance(self._exit(node, index))
        if node.id not in self._stage.inner:
            return _ExitStation(node, self.outbox)
        return super()._station(node, index)

    def _task(self, node: Node, index: int) -> TaskInfo:
        number, count = self._task_of
        # In a union of several sources Spark numbers the tasks of all sources consecutively.
        number %= count
        if node.id in self._split:
            number, count = index, self._parallelism[node.id]
        return TaskInfo(
            node.name,
            index=number,
            parallelism=count,
            max_parallelism=self._key_groups(node),
            job_parameters=self._job.settings.job_parameters,
        )


class Outbox:
    """Records that leave a stage, by address, until they are taken."""

    def __init__(self) -> None:
        self._records: dict[Address, list[Record]] = {}

    def at(self, address: Address) -> list[Record]:
        """Return the list of records for an address, always the same list object."""
        return self._records.setdefault(address, [])

    def count(self) -> int:
        """Count the records."""
        return sum(map(len, self._records.values()))

    def take(self) -> Iterator[tuple[Address, list[Record]]]:
        """Yield all records by address, and forget them."""
        for address, records in self._records.items():
            if records:
                # Copied and emptied, since exits hold the list's `append`.
                taken = records[:]
                records.clear()
                yield address, taken


class _ExitStation(StreamOperator):
    """Takes the elements for a node of another stage.

    Args:
        node: The node of the other stage.
        outbox: The outbox that gets the records.
    """

    def __init__(self, node: Node, outbox: Outbox) -> None:
        super().__init__(nowhere())
        self._node, self._outbox = node.id, outbox
        self._takes_keys = is_keyed(node)
        self.watermark: int | None = MIN_WATERMARK if self._takes_keys else None
        """The least watermark of all channels, in ms; None if the node does not wait for watermarks."""

    def channel(self, position: int) -> Channel:
        """Return a channel for a stream operator of this stage."""
        append = self._outbox.at(Address(self._node, position)).append

        def element(value: Any, timestamp: int | None) -> None:
            append((None, as_given(value), timestamp))

        def keyed(key: Any, value: Any, timestamp: int | None) -> None:
            append((key, as_given(value), timestamp))

        return Channel(element, self._gate.channel(), keyed if self._takes_keys else None)

    def _on_watermark(self, watermark: int) -> None:
        if self.watermark is not None:
            self.watermark = watermark


class _OperatorEntrance(StreamOperator):
    """Takes in the outputs of a keyed operator before the stage."""

    @property
    def out(self) -> Output:
        """The output that passes them on."""
        return self._out
