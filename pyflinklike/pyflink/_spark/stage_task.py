# SPDX-License-Identifier: Apache-2.0
"""The function that Spark runs for a stage of a job, over Arrow record batches.

It takes in elements from one of three places: from rows that Spark has read (`FrameSource`), from splits that the
task reads itself, or from the outputs of keyed operators.  They run through the stream operators of the stage,
and a `Sender` packs whatever leaves it.

The stream operators are the local runner's, so functions without keys behave on Spark as they do there.  Only the
ends of the graph differ: elements enter from rows of Spark, and leave as records for another stage.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import attrs
import pyarrow as pa
from pyspark import TaskContext

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK, wall_clock
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource, Node, Partition
from pyflinklike.pyflink._local.keyed_stream_operators import WaitingStation
from pyflinklike.pyflink._local.local_run import ONE_TO_ONE, Wiring
from pyflinklike.pyflink._local.stream_operators import (
    Channel,
    Output,
    Send,
    SourceStation,
    StreamOperator,
    forward,
    nowhere,
)
from pyflinklike.pyflink._spark.data_frame_source import FrameSource, frame_source
from pyflinklike.pyflink._spark.stage_outputs import (
    BatchSender,
    LastSender,
    Outlets,
    Record,
    Sender,
    StreamSender,
    Target,
)
from pyflinklike.pyflink._spark.stages import COUNTS, PythonStage, is_keyed
from pyflinklike.pyflink._spark.watermark_feed import SPLIT_WATERMARKS, SplitWatermark
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.stage_records import (
    OWN_TIMES,
    PASSED_ON,
    Address,
    StageRecord,
    dump,
    unwrap,
)
from pyflinklike.spark._wire.system_columns import check_watermark
from pyflinklike.types.copies import as_given

__all__ = ["SOURCE_SCHEMA", "SourceRow", "StageTask", "outputs_of", "sides_read"]

SOURCE_SCHEMA = WireSchema(
    pa.schema(
        [
            ("source", pa.int32()),
            ("split", pa.int32()),
            ("splits", pa.int32()),
            ("part", pa.string()),
            ("elements", pa.binary()),
            ("is_last", pa.bool_()),
        ]
    )
)
"""The rows of sources: a split by its number or name, or a pickle of elements with their times."""


class SourceRow(NamedTuple):
    """A row of `SOURCE_SCHEMA`.

    Args:
        source: The number of the source's node.
        split: The number of the split that the task reads.
        splits: The number of splits.
        part: The name of the split, if it has one.
        elements: A pickle of elements, if the driver or Spark has read them.
        is_last: Whether the source ends after this row.
        size: The number of elements, which is no column.
    """

    source: int
    split: int = 0
    splits: int = 1
    part: str | None = None
    elements: bytes | None = None
    is_last: bool = False
    size: int = 0


_MAX_RECORDS = 10_000
"""The number of records that a stage takes in before it packs its outputs: it bounds the memory of a task."""


@attrs.frozen
class StageTask:
    """A stage as a function for `mapInArrow`.

    Args:
        stage: The stage that the task runs.
        settings: The settings of the job.
        tasks: The number of tasks.
        targets: The keyed operators after it, in the order of their indexes.
        is_streaming: Whether the job is in streaming mode.
        outlets: The sinks that the tasks of the last stage write.
        tells_splits: Whether the tasks of the first stage report the watermarks of splits to the driver.
        counting: The names of functions whose metrics are reported, by the numbers of their nodes.
    """

    stage: PythonStage
    settings: JobSettings
    tasks: int
    targets: tuple[Target, ...]
    is_streaming: bool
    outlets: Outlets = attrs.field(factory=Outlets)
    tells_splits: bool = False
    counting: Mapping[int, str] = attrs.field(factory=dict)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage in a task."""
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        stations = StageStations(self.stage, self.settings, (number, self.tasks))
        stations.tick(wall_clock())
        sender = self._sender(number)
        try:
            splits: set[tuple[int, str]] = set()
            yield from self._process(self._note_splits(batches, splits), stations, sender)
            self._report_own_times(stations, sender)
            watermark = stations.watermark()
            if self.is_streaming and self.stage.number == 0:
                check_watermark(watermark)
            if self.tells_splits:
                # The driver makes the watermark, so this task must not give one to Spark.
                self._report_splits(splits, watermark, sender)
                watermark = MIN_WATERMARK
            yield from sender.end(watermark)
        except BaseException:
            sender.abandon()
            raise

    def _report_own_times(self, stations: StageStations, sender: Sender) -> None:
        """Report the watermarks of timestamps that this stage reassigns to the operators after it."""
        found = {
            target.own_time: stations.watermark_for(target.node)
            for target in self.targets
            if target.own_time is not None and target.own_time in self.stage.inner
        }
        for assigner, watermark in found.items():
            check_watermark(watermark)
            if watermark > MIN_WATERMARK:
                sender.tell(assigner, watermark)

    def _note_splits(
        self, batches: Iterable[pa.RecordBatch], splits: set[tuple[int, str]]
    ) -> Iterator[pa.RecordBatch]:
        """Pass the record batches on, and add their splits: nodes of sources, and names."""
        for batch in batches:
            if self.tells_splits and batch.num_rows:
                splits.update(self._splits_of(batch))
            yield batch

    def _report_splits(self, splits: set[tuple[int, str]], watermark: int, sender: Sender) -> None:
        """Report the watermarks of the splits that had elements to the driver."""
        if splits:
            reported = [SplitWatermark(*split, watermark) for split in sorted(splits)]
            sender.parcel(StageRecord(Address(SPLIT_WATERMARKS, 0), dump(reported)))

    def _splits_of(self, batch: pa.RecordBatch) -> Iterable[tuple[int, str]]:
        frames = self._frames()
        if frames:
            return [(number, source.split_of(batch)) for number, source in frames]
        # Rows with elements that Spark has read name their split; all rows of files count as one split.
        names = ("source", "part", "elements")
        numbers, parts, elements = (batch.column(name) for name in names)
        are_read = elements.is_valid().to_pylist()
        rows = zip(numbers.to_pylist(), parts.to_pylist(), are_read)
        return {(number, (part or "") if is_read else "") for number, part, is_read in rows}

    def _process(
        self, batches: Iterable[pa.RecordBatch], stations: StageStations, sender: Sender
    ) -> Iterator[pa.RecordBatch]:
        feed = self._feed()
        try:
            stations.open()
            for batch in batches:
                yield from feed(batch, stations, sender)
            self._end_frames(stations)
            for maker in stations.makers:
                maker.emit()
            counts = stations.counts(self.counting)
        except BaseException:
            stations.abandon()
            raise
        stations.close()
        if counts:
            sender.parcel(StageRecord(Address(COUNTS, 0), dump(list(map(tuple, counts)))))

    def _sender(self, number: int) -> Sender:
        if not self.targets:
            has_counts = self.is_streaming and bool(self.counting)
            return LastSender(self.outlets, number, has_counts=has_counts)
        if not self.is_streaming:
            return BatchSender(self.targets, number)
        is_first = self.stage.number == 0
        return StreamSender(self.targets, number, self.tasks, is_first=is_first)

    def _feed(self) -> Callable[[pa.RecordBatch, StageStations, Sender], Iterator[pa.RecordBatch]]:
        """Return the function that takes in record batches."""
        if self.stage.number:
            return self._from_operator
        return self._from_frame if self._frames() else self._from_sources

    def _frames(self) -> list[tuple[int, FrameSource]]:
        """Return the source of the stage and its node's number, if Spark reads it; at most one."""
        if self.stage.number:
            return []
        found = (
            (node.id, frame_source(node.source, is_streaming=self.is_streaming))
            for node in self.stage.graph.of_kind(FromSource)
        )
        return [(number, source) for number, source in found if source is not None]

    def _from_frame(
        self, batch: pa.RecordBatch, stations: StageStations, sender: Sender
    ) -> Iterator[pa.RecordBatch]:
        ((number, source),) = self._frames()
        stations.source(number).take_all(source.elements(batch))
        yield from _send(stations, sender, is_early=False)

    def _end_frames(self, stations: StageStations) -> None:
        """End the source of a batch: the task has taken in all rows of its partition."""
        for number, source in self._frames():
            if source.is_bounded:
                stations.source(number).end()

    def _from_sources(
        self, batch: pa.RecordBatch, stations: StageStations, sender: Sender
    ) -> Iterator[pa.RecordBatch]:
        for row in (SourceRow(**each) for each in batch.to_pylist()):
            node = self.stage.graph.nodes[row.source]
            assert isinstance(node, FromSource)
            station, elements = stations.source(node.id), _elements_of(row, node)
            while some := list(islice(elements, _MAX_RECORDS)):
                station.take_all(some)
                yield from _send(stations, sender, is_early=False)
            # Only a bounded source has a last row; its end must come after all of its watermarks.
            if row.is_last:
                for maker in stations.makers:
                    maker.emit()
                station.end()

    def _from_operator(
        self, batch: pa.RecordBatch, stations: StageStations, sender: Sender
    ) -> Iterator[pa.RecordBatch]:
        """Take in the outputs of operators and stage records that pass; first those from before the watermark."""
        numbers, payloads = (column.to_pylist() for column in batch.columns)
        for is_early in (True, False):
            for number, payload in zip(numbers, payloads):
                if number == PASSED_ON:
                    self._take_in(
                        StageRecord.from_bytes(unwrap(payload)), is_early, stations, sender
                    )
                # The number of an output from before the watermark is inverted: ~0 is -1.
                elif (number < 0) is is_early:
                    self._take_outputs(max(number, ~number), unwrap(payload), stations)
            yield from _send(stations, sender, is_early=is_early)

    def _take_in(
        self, parcel: StageRecord, is_early: bool, stations: StageStations, sender: Sender
    ) -> None:
        if parcel.address.is_early is not is_early:
            return
        if parcel.address.node == OWN_TIMES:
            self._pass_own_times(parcel, sender)
            return
        if parcel.address.node in self.stage.inner:
            stations.take_in(parcel.address, parcel.records())
        else:
            sender.parcel(parcel)

    def _pass_own_times(self, parcel: StageRecord, sender: Sender) -> None:
        """Pass on watermarks from the operators before to the operators after this stage."""
        context = TaskContext.get()
        # The partition watermarks of all tasks have reported the same.
        if context is None or context.partitionId() == 0:
            wanted = {target.own_time for target in self.targets}
            for assigner, watermark in parcel.records():
                if assigner in wanted:
                    sender.tell(assigner, watermark)

    def _take_outputs(self, number: int, contents: bytes, stations: StageStations) -> None:
        """Take in the outputs of a keyed operator."""
        operator, tag_id = outputs_of(self.stage)[number]
        out = stations.operator_exit(operator)
        send = out.main if tag_id is None else out.side[tag_id]
        for value, timestamp in pickle.loads(contents):  # noqa: S301  # of the job's own operator
            send(value, timestamp)


def outputs_of(stage: PythonStage) -> list[tuple[int, str | None]]:
    """Return for each number of an output its keyed operator, and the id of its side output or None.

    Args:
        stage: The stage that begins with the operators.
    """
    return [
        (operator, tag_id)
        for operator in stage.entrances
        for tag_id in (None, *sides_read(stage, operator))
    ]


def sides_read(stage: PythonStage, operator: int) -> tuple[str, ...]:
    """Return the ids of the side outputs of a keyed operator that are read, in order.

    Args:
        stage: The stage that begins with the operator.
        operator: The number of its node.
    """
    readers = stage.graph.side_outputs(stage.graph.nodes[operator])
    return tuple(dict.fromkeys(reader.tag.tag_id for reader in readers))


def _elements_of(row: SourceRow, node: FromSource) -> Iterator[tuple[Any, int | None]]:
    if row.elements is not None:
        return iter(pickle.loads(row.elements))  # noqa: S301  # of the driver of this job
    if row.part is not None:
        return node.source.read_split(row.part)
    return node.source.read(row.split, row.splits)


def _send(stations: StageStations, sender: Sender, *, is_early: bool) -> Iterator[pa.RecordBatch]:
    # Before the outbox is emptied: async functions put their outputs there.
    stations.settle()
    for address, records in stations.outbox.take():
        sender.records(address._replace(is_early=is_early), records)
    yield from sender.take()


# The stream operators of a task


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
            is_split = not isinstance(node, ONE_TO_ONE) and not is_keyed(node)
        if is_split or (before > 1 and node.id in self._stage.inner):
            self._split.add(node.id)
        if node.id not in self._split:
            return 1
        if isinstance(node, ONE_TO_ONE):
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

    def _subtask(self, node: Node, index: int) -> tuple[int, int]:
        if node.id in self._split:
            return super()._subtask(node, index)
        number, count = self._task_of
        # In a union of several sources Spark numbers the tasks of all sources consecutively.
        return number % count, count


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

    def channel(self, position: int) -> Channel:
        """Return a channel for a stream operator of this stage."""
        append = self._outbox.at(Address(self._node, position)).append

        def element(value: Any, timestamp: int | None) -> None:
            append((None, as_given(value), timestamp))

        def keyed(key: Any, value: Any, timestamp: int | None) -> None:
            append((key, as_given(value), timestamp))

        return Channel(element, self._watermark_channel(), keyed if self._takes_keys else None)

    @property
    def watermark(self) -> int | None:
        """The least watermark of all channels, in ms; None if the node does not wait for watermarks."""
        return self._watermark if self._takes_keys else None


class _OperatorEntrance(StreamOperator):
    """Takes in the outputs of a keyed operator before the stage."""

    @property
    def out(self) -> Output:
        """The output that passes them on."""
        return self._out
