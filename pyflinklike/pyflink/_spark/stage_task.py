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
from collections import defaultdict
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
    PASSED_ON,
    REASSIGNED_WATERMARKS,
    Address,
    StageRecord,
    dump,
    unwrap,
)
from pyflinklike.spark._wire.system_columns import check_watermark
from pyflinklike.types.copies import as_given

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
            yield from _RunningStage(self, stations, sender).results(batches)
        except BaseException:
            sender.abandon()
            raise

    def _sender(self, number: int) -> Sender:
        if not self.targets:
            has_counts = self.is_streaming and bool(self.counting)
            return LastSender(self.outlets, number, has_counts=has_counts)
        if not self.is_streaming:
            return BatchSender(self.targets, number)
        is_first = self.stage.number == 0
        return StreamSender(self.targets, number, self.tasks, is_first=is_first)

    def frame(self) -> tuple[int, FrameSource] | None:
        """Return the source of the stage with its node's number, if Spark reads it; there is at most one."""
        if self.stage.number == 0:
            for node in self.stage.graph.of_kind(FromSource):
                source = frame_source(node.source, is_streaming=self.is_streaming)
                if source is not None:
                    return node.id, source
        return None

    def splits_of(self, batch: pa.RecordBatch) -> set[tuple[int, str]]:
        """Return the splits from which rows come: nodes of sources, and names."""
        frame = self.frame()
        if frame is not None:
            return {(frame[0], frame[1].split_of(batch))}
        # Rows with elements that Spark has read name their split; all rows of files count as one split.
        names = ("source", "part", "elements")
        numbers, parts, elements = (batch.column(name) for name in names)
        are_read = elements.is_valid().to_pylist()
        rows = zip(numbers.to_pylist(), parts.to_pylist(), are_read)
        return {(number, (part or "") if is_read else "") for number, part, is_read in rows}


class _RunningStage:
    """A stage in one task.

    Args:
        task: The stage.
        stations: Its stream operators.
        sender: Packs what leaves it.
    """

    def __init__(self, task: StageTask, stations: StageStations, sender: Sender) -> None:
        self._task, self._stage = task, task.stage
        self._stations, self._sender = stations, sender
        self._frame = task.frame()
        self._splits: set[tuple[int, str]] = set()
        """The splits that had elements."""

    def results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the stage puts out for record batches, and its watermark."""
        yield from self._process(batches)
        self._report_reassigned_watermarks()
        watermark = self._stations.watermark()
        if self._task.is_streaming and self._stage.number == 0:
            check_watermark(watermark)
        if self._task.tells_splits:
            # The driver makes the watermark, so this task must not give one to Spark.
            self._report_splits(watermark)
            watermark = MIN_WATERMARK
        yield from self._sender.end(watermark)

    def _process(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stations, feed = self._stations, self._feed()
        try:
            stations.open()
            for batch in batches:
                if self._task.tells_splits and batch.num_rows:
                    self._splits |= self._task.splits_of(batch)
                yield from feed(batch)
            if self._frame is not None and self._frame[1].is_bounded:
                # The task has taken in all rows of its partition.
                stations.source(self._frame[0]).end()
            stations.emit_watermarks()
            counts = stations.counts(self._task.counting)
        except BaseException:
            stations.abandon()
            raise
        stations.close()
        if counts:
            self._sender.parcel(StageRecord(Address(COUNTS, 0), dump(list(map(tuple, counts)))))

    def _report_reassigned_watermarks(self) -> None:
        """Report the watermarks of timestamps that this stage reassigns to the operators after it."""
        found = {
            target.reassigner: self._stations.watermark_for(target.node)
            for target in self._task.targets
            if target.reassigner is not None and target.reassigner in self._stage.inner
        }
        for assigner, watermark in found.items():
            check_watermark(watermark)
            if watermark > MIN_WATERMARK:
                self._sender.tell(assigner, watermark)

    def _report_splits(self, watermark: int) -> None:
        """Report the watermarks of the splits that had elements to the driver."""
        if self._splits:
            reported = [SplitWatermark(*split, watermark) for split in sorted(self._splits)]
            self._sender.parcel(StageRecord(Address(SPLIT_WATERMARKS, 0), dump(reported)))

    def _feed(self) -> Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]:
        """Return the function that takes in record batches."""
        if self._stage.number:
            return self._from_operator
        return self._from_sources if self._frame is None else self._from_frame

    def _send(self, *, is_early: bool = False) -> Iterator[pa.RecordBatch]:
        # Before the outbox is emptied: async functions put their outputs there.
        self._stations.settle()
        for address, records in self._stations.take():
            self._sender.records(address._replace(is_early=is_early), records)
        yield from self._sender.take()

    def _from_frame(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert self._frame is not None
        number, source = self._frame
        self._stations.source(number).take_all(source.elements(batch))
        yield from self._send()

    def _from_sources(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for row in (SourceRow(**each) for each in batch.to_pylist()):
            node = self._stage.graph.nodes[row.source]
            assert isinstance(node, FromSource)
            station, elements = self._stations.source(node.id), _elements_of(row, node)
            while some := list(islice(elements, _MAX_RECORDS)):
                station.take_all(some)
                yield from self._send()
            # Only a bounded source has a last row; its end must come after all of its watermarks.
            if row.is_last:
                self._stations.emit_watermarks()
                station.end()

    def _from_operator(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take in the outputs of operators and stage records that pass; first those from before the watermark."""
        numbers, payloads = (column.to_pylist() for column in batch.columns)
        for is_early in (True, False):
            for number, payload in zip(numbers, payloads):
                if number == PASSED_ON:
                    parcel = StageRecord.from_bytes(unwrap(payload))
                    if parcel.address.is_early is is_early:
                        self._take_in(parcel)
                # The number of an output from before the watermark is inverted: ~0 is -1.
                elif (number < 0) is is_early:
                    self._take_outputs(max(number, ~number), unwrap(payload))
            yield from self._send(is_early=is_early)

    def _take_in(self, parcel: StageRecord) -> None:
        if parcel.address.node == REASSIGNED_WATERMARKS:
            self._pass_reassigned_watermarks(parcel)
        elif parcel.address.node in self._stage.inner:
            self._stations.take_in(parcel.address, parcel.records())
        else:
            self._sender.parcel(parcel)

    def _pass_reassigned_watermarks(self, parcel: StageRecord) -> None:
        """Pass on watermarks from the operators before to the operators after this stage."""
        context = TaskContext.get()
        # The partition watermarks of all tasks have reported the same.
        if context is None or context.partitionId() == 0:
            wanted = {target.reassigner for target in self._task.targets}
            for assigner, watermark in parcel.records():
                if assigner in wanted:
                    self._sender.tell(assigner, watermark)

    def _take_outputs(self, number: int, contents: bytes) -> None:
        """Take in the outputs of a keyed operator."""
        operator, tag_id = outputs_of(self._stage)[number]
        out = self._stations.operator_exit(operator)
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
        self._outbox: defaultdict[Address, list[Record]] = defaultdict(list)
        self._entrances: dict[int, Output] = {}
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
        return self._entrances[number]

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

    def take(self) -> Iterator[tuple[Address, list[Record]]]:
        """Yield the records that leave the stage by address, and forget them."""
        for address, records in self._outbox.items():
            if records:
                # Copied and emptied, since exits hold the list's `append`.
                taken = records[:]
                records.clear()
                yield address, taken

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
            out = self._entrances[node.id] = self._exit(node, index)
            return StreamOperator(out)
        if node.id not in self._stage.inner:
            return _ExitStation(node, self._outbox)
        return super()._station(node, index)

    def _subtask(self, node: Node, index: int) -> tuple[int, int]:
        if node.id in self._split:
            return super()._subtask(node, index)
        number, count = self._task_of
        # In a union of several sources Spark numbers the tasks of all sources consecutively.
        return number % count, count


class _ExitStation(StreamOperator):
    """Takes the elements for a node of another stage.

    Args:
        node: The node of the other stage.
        outbox: Gets the records, by address.
    """

    def __init__(self, node: Node, outbox: Mapping[Address, list[Record]]) -> None:
        super().__init__(nowhere())
        self._node, self._outbox = node.id, outbox
        self._takes_keys = is_keyed(node)

    def channel(self, position: int) -> Channel:
        """Return a channel for a stream operator of this stage."""
        append = self._outbox[Address(self._node, position)].append

        def element(value: Any, timestamp: int | None) -> None:
            append((None, as_given(value), timestamp))

        def keyed(key: Any, value: Any, timestamp: int | None) -> None:
            append((key, as_given(value), timestamp))

        return Channel(element, self._watermark_channel(), keyed if self._takes_keys else None)

    @property
    def watermark(self) -> int | None:
        """The least watermark of all channels, in ms; None if the node does not wait for watermarks."""
        return self._watermark if self._takes_keys else None
