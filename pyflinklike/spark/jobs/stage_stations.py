# SPDX-License-Identifier: Apache-2.0
"""The stations of a stage in one task: those of the local runner, and exits to other stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.engine.graph.job import Job, JobSettings
from pyflinklike.engine.graph.nodes import FromSource, Node, Partition
from pyflinklike.engine.local.local_run import PASSED_ON, Wiring
from pyflinklike.engine.local.operator_stations import OperatorStation, WaitingStation
from pyflinklike.engine.local.stations import (
    Channel,
    Exit,
    Send,
    SourceStation,
    Station,
    forwarded,
    nowhere,
)
from pyflinklike.engine.runtime.call_contexts import TaskInfo
from pyflinklike.engine.types.copies import as_given
from pyflinklike.spark.jobs.stages import Count, Stage, is_keyed
from pyflinklike.spark.wire.parcels import Address

__all__ = ["Outbox", "StageStations"]

Record = tuple[Any, Any, "int | None"]


class Outbox:
    """Records that leave a stage, by address, until they are taken."""

    def __init__(self) -> None:
        self._records: dict[Address, list[Record]] = {}

    def at(self, address: Address) -> list[Record]:
        """The records for an address; the list stays the same one."""
        return self._records.setdefault(address, [])

    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._records.values()))

    def take(self) -> Iterator[tuple[Address, list[Record]]]:
        """All records; nothing is left here."""
        for address, records in self._records.items():
            if records:
                taken = records[:]
                records.clear()
                yield address, taken


class _ExitStation(Station):
    """Takes what goes to a node of another stage.

    Args:
        node: That one.
        outbox: Gets the records.
    """

    def __init__(self, node: Node, outbox: Outbox) -> None:
        super().__init__(nowhere())
        self._node, self._outbox = node.id, outbox
        self._takes_keys = is_keyed(node)
        self.watermark: int | None = MIN_WATERMARK if self._takes_keys else None
        """Of all channels, in ms; None where nobody behind waits for it."""

    def channel(self, position: int) -> Channel:
        """A channel for somebody of this stage."""
        append = self._outbox.at(Address(self._node, position)).append

        def element(value: Any, timestamp: int | None) -> None:
            append((None, as_given(value), timestamp))

        def keyed(key: Any, value: Any, timestamp: int | None) -> None:
            append((key, as_given(value), timestamp))

        return Channel(element, self._gate.channel(), keyed if self._takes_keys else None)

    def _on_watermark(self, watermark: int) -> None:
        if self.watermark is not None:
            self.watermark = watermark


class _OperatorEntrance(Station):
    """Where the outputs of a keyed operator come in."""

    @property
    def out(self) -> Exit:
        """Where they go."""
        return self._out


class StageStations(Wiring):
    """The stations of a stage, each once.

    Args:
        stage: Which one.
        settings: Of the job.
        task: The number of the task, and of how many.
    """

    def __init__(self, stage: Stage, settings: JobSettings, task: tuple[int, int]) -> None:
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
        """Close them."""
        for station in self.stations:
            station.close()

    def abandon(self) -> None:
        """Close them after a failure."""
        for station in self.stations:
            if isinstance(station, OperatorStation):
                station.abandon()

    def counts(self, names: Mapping[int, str]) -> list[Count]:
        """What the metrics of functions have counted since this was called last.

        Args:
            names: Of the functions that may count, by the numbers of their nodes.

        Raises:
            UserFunctionError: A gauge raised.
        """
        return [
            Count(names[number], *increment)
            for number in self._stage.inner & names.keys()
            for station in self._instances[number]
            if isinstance(station, OperatorStation)
            for increment in station.take_metrics()
        ]

    def tick(self, now: int) -> None:
        """The processing time is this, in ms."""
        for station in self.stations:
            station.tick(now)

    def source(self, number: int) -> SourceStation:
        """Where the elements of a source come in."""
        station = self._instances[number][0]
        assert isinstance(station, SourceStation)
        return station

    def operator_exit(self, number: int) -> Exit:
        """Where the outputs of the keyed operator before this stage go."""
        station = self._instances[number][0]
        assert isinstance(station, _OperatorEntrance)
        return station.out

    def take_in(self, address: Address, records: list[Record]) -> None:
        """Process records that were sent from an earlier stage to a node of this one."""
        at = address.node, address.position
        if at not in self._inputs:
            # Only now: a channel that nobody uses would hold the watermark.
            channels = [each.channel(at[1]) for each in self._instances[at[0]]]
            self._inputs[at] = forwarded(0, 1, [channel.element for channel in channels])
        element = self._inputs[at]
        for _, value, timestamp in records:
            element(value, timestamp)

    def settle(self) -> None:
        """Wait for the elements that async functions hold back: of one after those before it."""
        for station in self._waiting:
            station.wait()

    def watermark(self) -> int:
        """The least watermark that leaves for a keyed operator, in ms; the last one where none waits."""
        marks = [each.watermark for each in self.stations if isinstance(each, _ExitStation)]
        return min((mark for mark in marks if mark is not None), default=MAX_WATERMARK)

    def _number_of_instances(self, node: Node) -> int:
        """One, for there are other tasks; where functions see a partitioning, as many as were asked for.

        Then each task has all of them: an element goes to the instances that it must go to, with
        their numbers, wherever its task is.
        """
        parts = [self._graph.nodes[each] for each in node.inputs if each in self._graph.nodes]
        before = max((self._parallelism[each.id] for each in parts), default=1)
        is_split = any(isinstance(each, Partition) and each.is_seen for each in parts)
        if is_split:
            is_split = not isinstance(node, PASSED_ON) and not is_keyed(node)
        if is_split or (before > 1 and node.id in self._stage.inner):
            self._split.add(node.id)
        if node.id not in self._split:
            return 1
        if isinstance(node, PASSED_ON):
            return before
        return node.parallelism or self._job.settings.parallelism or self._task_of[1]

    def _station(self, node: Node, index: int) -> Station:
        if isinstance(node, FromSource):
            return SourceStation(self._exit(node, index), iter(()), node.strategy)
        if node.id in self._stage.entrances:
            return _OperatorEntrance(self._exit(node, index))
        if node.id not in self._stage.inner:
            return _ExitStation(node, self.outbox)
        return super()._station(node, index)

    def _task(self, node: Node, index: int) -> TaskInfo:
        number, count = self._task_of
        # Spark counts the tasks of all sources on.
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
