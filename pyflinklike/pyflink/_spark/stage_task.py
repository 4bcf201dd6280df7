# SPDX-License-Identifier: Apache-2.0
"""The function that Spark runs for a stage of a job, over Arrow record batches.

It takes in elements from one of three places: from rows that Spark has read (`FrameSource`), from splits that the
task reads itself, or from the outputs of keyed operators.  They run through the stream operators of the stage,
and a `Sender` packs whatever leaves it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext

from pyflinklike._clock import MIN_WATERMARK, wall_clock
from pyflinklike.pyflink._graph.job import JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource, SideOutput
from pyflinklike.pyflink._spark.data_frame_source import FrameSource, frame_source
from pyflinklike.pyflink._spark.stage_operators import StageStations
from pyflinklike.pyflink._spark.stage_outputs import (
    BatchSender,
    LastSender,
    NextOperator,
    Outlets,
    Sender,
    StreamSender,
    by_key,
    in_turn,
)
from pyflinklike.pyflink._spark.stages import COUNTS, PythonStage
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

__all__ = ["SOURCE_SCHEMA", "StageTask", "Target", "outputs_of", "sides_read"]

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

_MAX_RECORDS = 10_000
"""The number of records that a stage takes in before it packs its outputs: it bounds the memory of a task."""


@attrs.frozen
class Target:
    """A keyed operator after a stage.

    Args:
        node: The number of the operator's node.
        place: The operator index, among the operators that share its state operator.
        key_groups: The number of key groups.
        has_keys: Whether elements have keys; otherwise they go to key groups in turn.
        has_broadcast: Whether the second input of the operator is broadcast.
        calls_all_key_groups: Whether its key groups are called in every micro-batch.
        reassigner: The number of the node that reassigns timestamps before the operator, or None.
    """

    node: int
    place: int
    key_groups: int
    has_keys: bool = True
    has_broadcast: bool = False
    calls_all_key_groups: bool = attrs.field(default=False, kw_only=True)
    reassigner: int | None = attrs.field(default=None, kw_only=True)

    def next_for_task(self, task: int) -> NextOperator:
        """Return the operator as the sender of the task of this number needs it."""
        spread = by_key(self.key_groups) if self.has_keys else in_turn(self.key_groups, task)
        return NextOperator(
            self.node,
            self.place,
            spread,
            self.key_groups,
            self.has_broadcast,
            self.calls_all_key_groups,
        )


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
            self._report_reassigned_watermarks(stations, sender)
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

    def _report_reassigned_watermarks(self, stations: StageStations, sender: Sender) -> None:
        """Report the watermarks of timestamps that this stage reassigns to the operators after it."""
        found = {
            target.reassigner: stations.watermark_for(target.node)
            for target in self.targets
            if target.reassigner is not None and target.reassigner in self.stage.inner
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
        following = [target.next_for_task(number) for target in self.targets]
        if not following:
            return LastSender(
                self.outlets.open(number), has_counts=self.is_streaming and bool(self.counting)
            )
        if not self.is_streaming:
            return BatchSender(following, number)
        return StreamSender(following, number, self.tasks, is_first=self.stage.number == 0)

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
        for row in batch.to_pylist():
            node = self.stage.graph.nodes[row["source"]]
            assert isinstance(node, FromSource)
            station, elements = stations.source(node.id), _elements_of(row, node)
            while some := list(islice(elements, _MAX_RECORDS)):
                station.take_all(some)
                yield from _send(stations, sender, is_early=False)
            # Only a bounded source has a last row; its end must come after all of its watermarks.
            if row["is_last"]:
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
        if parcel.address.node == REASSIGNED_WATERMARKS:
            self._pass_reassigned_watermarks(parcel, sender)
            return
        if parcel.address.node in self.stage.inner:
            stations.take_in(parcel.address, parcel.records())
        else:
            sender.parcel(parcel)

    def _pass_reassigned_watermarks(self, parcel: StageRecord, sender: Sender) -> None:
        """Pass on watermarks from the operators before to the operators after this stage."""
        context = TaskContext.get()
        # The partition watermarks of all tasks have reported the same.
        if context is None or context.partitionId() == 0:
            wanted = {target.reassigner for target in self.targets}
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
    readers = (node for node, _ in stage.graph.consumers[operator] if isinstance(node, SideOutput))
    return tuple(dict.fromkeys(reader.tag.tag_id for reader in readers))


def _elements_of(row: dict[str, Any], node: FromSource) -> Iterator[tuple[Any, int | None]]:
    if row["elements"] is not None:
        return iter(pickle.loads(row["elements"]))  # noqa: S301  # of the driver of this job
    if row["part"] is not None:
        return node.source.read_split(row["part"])
    return node.source.read(row["split"], row["splits"])


def _send(stations: StageStations, sender: Sender, *, is_early: bool) -> Iterator[pa.RecordBatch]:
    # Before the outbox is emptied: async functions put their outputs there.
    stations.settle()
    for address, records in stations.outbox.take():
        sender.records(address._replace(is_early=is_early), records)
    yield from sender.take()
