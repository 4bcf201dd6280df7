# SPDX-License-Identifier: Apache-2.0
"""The run of a job in this process: makes the instances of its nodes, connects them, and drives them.

`Wiring` makes the instances from the last node to the first, so that each one is made with the channels of its
readers.  After that an element is one call: an instance calls its reader, which calls the next one, down to
the sinks.  `LocalRun` reads the sources in turn, element by element, and sends watermarks.

A savepoint is taken between two elements.  Then no element is on its way, since each one passes through the
whole graph before the next is read; only calls of async functions are still open, and the run waits for them.
So no barriers are needed, as Flink has them.  The entries of all instances of an operator become one operator of
the savepoint.  A job may begin with it at another parallelism: each instance gets the keys whose elements it will
get, and a copy of broadcast state.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs

from pyflinklike import __version__
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._clock import wall_clock
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.errors import IncompatibleStateError, SparkSetupError, StateValueError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.job_run import (
    Count,
    JobMetrics,
    JobRun,
    SavepointRequest,
    find_counting_nodes,
)
from pyflinklike.pyflink._graph.job_savepoint import (
    JobBeginning,
    ReadParts,
    begin_with,
    job_to_save,
)
from pyflinklike.pyflink._graph.nodes import (
    FromSource,
    KeyBy,
    Node,
    Partition,
    SideOutput,
    ToSink,
    Union,
    WithBroadcast,
)
from pyflinklike.pyflink._graph.sinks import CollectSink, SinkWriter
from pyflinklike.pyflink._graph.watermarks import find_aligned_limits
from pyflinklike.pyflink._local.keyed_stream_operators import OperatorStation, operator_station
from pyflinklike.pyflink._local.stream_operators import (
    Channel,
    KeyByStation,
    Output,
    Send,
    SinkStation,
    SourceStation,
    StreamOperator,
    TimestampStation,
    converter_of,
    misfit,
    route,
    to_all,
)
from pyflinklike.state_processor._savepoints.manifest import Manifest, Position, SavedOperator
from pyflinklike.state_processor._savepoints.savepoint_directory import check_fit, open_savepoint
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)
from pyflinklike.state_processor._savepoints.savepoint_writer import write_operator
from pyflinklike.types.catalog import type_of
from pyflinklike.types.copies import as_given
from pyflinklike.types.frozen_keys import key_group_of


def start(job: Job, clock: Callable[[], int] = wall_clock) -> LocalRun:
    """Return the run of a job in this process, which works while the program waits for its results.

    Args:
        job: The job to run.
        clock: Returns the processing time in ms; tests give another one than the machine's.

    Raises:
        SparkSetupError: The job has a source or a sink that only Spark has.
    """
    return LocalRun(job, clock)


class LocalRun(JobRun):
    """A job in this process.

    Sources take turns, one element each.  Bounded sources that only feed broadcast inputs come
    first.  Watermarks follow every `records_per_batch` elements.  If that is not set, they follow
    each element if any source is unbounded, and else only the end of each source.
    """

    def __init__(self, job: Job, clock: Callable[[], int]) -> None:
        self._job, self._clock = job, clock
        self._now: int | None = None
        self._beginning = _find_beginning(job)
        self._wiring = Wiring(job, {} if self._beginning is None else self._beginning.positions)
        super().__init__(self._wiring.collected, JobMetrics())

    def _run(self) -> Generator[None, None, None]:
        """Do all the work, and yield after every element."""
        self._make_importable()
        self._tick()
        if self._beginning is not None:
            _begin_stations(self._wiring, self._beginning)
        self._wiring.open()
        for sources in self._in_turns():
            yield from self._read(sources)

    def _make_importable(self) -> None:
        """Let functions import the program's files, which are modules or folders of modules."""
        for path in map(os.path.abspath, self._job.settings.python_files):
            folder = os.path.dirname(path) if path.endswith(".py") else path
            if folder not in sys.path:
                sys.path.insert(0, folder)

    def _finish(self, *, is_stopped: bool) -> None:
        for station in self._wiring.stations:
            station.is_stopped = is_stopped
        graph = self._job.graph
        names = {**graph.state_names, **find_counting_nodes(graph)}
        self._metrics.add(self._wiring.counts(names))
        self._wiring.close()
        for writer in self._wiring.writers:
            writer.finish()

    def _save(self, request: SavepointRequest) -> bool:
        if self._job.settings.is_batch:
            return super()._save(request)
        if request.drains:
            request.has_drained = True
            for _, source in self._wiring.sources:
                source.end()
        # In the order of the graph, so later operators take in what earlier ones pass on.
        for station in self._wiring.stations:
            station.settle()
        _write_savepoint(request.path, self._job, self._wiring, self._beginning)
        return True

    def _abandon(self) -> None:
        self._wiring.abandon()
        for writer in self._wiring.writers:
            writer.abandon()

    def _read(self, sources: list[SourceStation]) -> Iterator[None]:
        """Read sources to their ends, in turns, an element from each."""
        count, limit = 0, self._records_per_batch()
        is_aligned = any(source.strategy.alignment is not None for source in sources)
        while sources:
            for source in _without_those_ahead(sources) if is_aligned else tuple(sources):
                self._tick()
                if not source.step():
                    sources.remove(source)
                count += 1
                if limit and count % limit == 0:
                    self._wiring.emit_watermarks()
                yield

    def _records_per_batch(self) -> int | None:
        """Return the number of elements between watermarks; None if only the ends of sources send them."""
        settings = self._job.settings
        if settings.is_batch:
            return None
        if settings.records_per_batch is None and not self._job.graph.is_bounded:
            return 1
        return settings.records_per_batch

    def _tick(self) -> None:
        # Most elements come within the millisecond of the one before: then no operator has to be called.
        now = self._clock()
        if now != self._now:
            self._now = now
            self._wiring.tick(now)

    def _in_turns(self) -> list[list[SourceStation]]:
        """Return bounded sources that feed broadcast inputs only, then the others."""
        first: list[SourceStation] = []
        others: list[SourceStation] = []
        # They were made from the last to the first, and are read in the order of the program.
        for node, station in reversed(self._wiring.sources):
            comes_first = node.source.is_bounded and self._job.graph.is_only_broadcast(node.id)
            (first if comes_first else others).append(station)
        return [first, others]


def _without_those_ahead(sources: list[SourceStation]) -> list[SourceStation]:
    """Return the sources that need not wait for others."""
    watermarks = [source.find_watermark() for source in sources]
    limits = find_aligned_limits(
        (source.strategy.alignment, watermark) for source, watermark in zip(sources, watermarks)
    )
    return [
        source
        for source, watermark, limit in zip(sources, watermarks, limits)
        if watermark is None or limit is None or watermark <= limit
    ]


def _find_beginning(job: Job) -> JobBeginning | None:
    """Return the savepoint with which a job begins, if its settings name one.

    Raises:
        CorruptStateError: There is no savepoint, or its manifest is damaged.
        IncompatibleStateError: The savepoint is not one of this job.
        SparkSetupError: The path is the folder of a job on Spark, or only Spark can read on from a position.
    """
    settings = job.settings
    if settings.recovery_path is None or settings.is_batch:
        return None
    if savepoint_location_of(settings.recovery_path).exists("job.json"):
        msg = (
            "execution.state-recovery.path is a savepoint for a job in this process, got "
            f"{settings.recovery_path!r}, the folder of a job on Spark; make a savepoint of it with "
            "take_savepoint or `pyflinklike state export`"
        )
        raise SparkSetupError(msg)
    beginning = begin_with(open_savepoint(settings.recovery_path), job.graph, settings)
    for number, position in beginning.positions.items():
        if "read" not in position and "left" not in position:
            msg = (
                "only Spark can go on with a source that it has read, got "
                f"{job.graph.nodes[number].name!r} in this process; set execution.target to spark"
            )
            raise SparkSetupError(msg)
    return beginning


# Savepoints


def _write_savepoint(path: str, job: Job, wiring: Wiring, former: JobBeginning | None) -> None:
    """Write the state of a job and the positions of its sources.

    Args:
        path: The directory to write, which must not exist or be empty.
        job: The job that runs.
        wiring: The instances of the job; they must have passed on all outputs.
        former: The savepoint with which it began, or None.  Its states are saved again even if the job
            does not declare them.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path cannot be used.
        IncompatibleStateError: A store belongs to one of several instances.
    """
    location = savepoint_location_of(path)
    location.begin("error")  # refuses a path where something is
    begun = {} if former is None else former.operators
    written = tuple(
        _write_operator(location, job.graph.state_names[number], stations, begun.get(number))
        for number, stations in wiring.stateful().items()
    )
    sources = job.graph.of_kind(FromSource)
    positions = {node.id: _position_of(node, wiring.read[node.id]) for node in sources}
    saved = job_to_save(job.settings.name, job.graph, positions)
    # Last of all: a directory without a manifest is no savepoint.
    location.finish(Manifest(__version__, wall_clock(), written, job=saved))


def _write_operator(
    location: SavepointLocation,
    name: str,
    stations: list[OperatorStation],
    former: SavedOperator | None,
) -> SavedOperator:
    record = stations[0].describe(name)
    # A state that no function has declared in this run is still in the entries.
    if former is not None:
        record = attrs.evolve(record, states={**former.record.states, **record.states})
    log = [station.snapshot() for station in stations]
    if len(log) > 1:
        _refuse_divided(name, log)
    return write_operator(location, record, log)


def _refuse_divided(name: str, log: Iterable[Segment]) -> None:
    """Refuse a store that belongs to no key, since each instance has one of its own."""
    for declaration in (each for segment in log for each in segment.declarations.values()):
        if declaration.per_group and not declaration.is_replicated and not declaration.is_mark:
            msg = (
                f"operator {name!r}: a savepoint of several instances holds only what belongs to keys, "
                f'got {declaration.name!r} of scope or stream_time "partition"; use scope "key", '
                "or set the parallelism of the operator to 1"
            )
            raise IncompatibleStateError(msg)


def _position_of(node: FromSource, parts: ReadParts) -> tuple[Position | None, str]:
    if not node.source.is_read_alike and not parts.is_at_an_end():
        return None, "its elements may come in another order when they are read again"
    return parts.position(), ""


def _begin_stations(wiring: Wiring, beginning: JobBeginning) -> None:
    """Give the instances of a job their parts of a savepoint, before their functions are opened.

    Args:
        wiring: The instances of the job, not opened yet.
        beginning: The parts of the savepoint for this job.

    Raises:
        CorruptStateError: The savepoint is damaged.
        IncompatibleStateError: A store would have to be divided among instances.
        StateValueError: A value does not fit its type.
    """
    where, instances = beginning.directory.location.where, wiring.stateful()
    for number, saved in beginning.operators.items():
        stations = instances[number]
        check_fit(saved.record, saved.domains, len(stations), {}, where)
        snapshot = beginning.directory.segment(saved.uid)
        owners = partial(_find_owners, wiring.key_groups(number), len(stations))
        # `begin_with` has checked that this is the program's own type of keys.
        key_type = type_of(saved.record.identity.key)
        groups = regroup_snapshot(
            snapshot, key_type, owners, len(stations), where, by_frozen_key=True
        )
        for index, station in enumerate(stations):
            station.begin_with(groups.get(index, []), where)


def _find_owners(key_groups: int, instances: int, keys: list[Any]) -> list[int]:
    """Return the numbers of the instances that get the elements of some frozen keys."""
    # As Flink assigns key groups: each instance has a range of them.
    return [key_group_of(key, key_groups) * instances // key_groups for key in keys]


# The instances of nodes


_KEY_GROUPS = 128  # as Flink's least number
ONE_TO_ONE = (KeyBy, Partition, SideOutput)
"""Nodes with as many instances as their input has."""
_UNCHANGED = (FromSource, ToSink, Union, *ONE_TO_ONE)


class Wiring:
    """The instances of all nodes of a job, connected.

    Args:
        job: The job whose nodes are made.
        positions: The positions from which sources go on, by the numbers of their nodes; other sources
            begin.
    """

    def __init__(self, job: Job, positions: Mapping[int, Position] = MappingProxyType({})) -> None:
        self._job, self._graph, self._positions = job, job.graph, positions
        self.read: dict[int, ReadParts] = {}
        """How far each source was read, by the number of its node."""
        self._parallelism: dict[int, int] = {}
        self._instances: dict[int, list[StreamOperator]] = {}
        self.stations: list[StreamOperator] = []
        """All instances, each after the instances that send to it."""
        self._opened: list[StreamOperator] = []
        self.sources: list[tuple[FromSource, SourceStation]] = []
        self.writers: list[SinkWriter] = []
        self.collected: dict[int, deque[Any]] = {}
        """The elements that came to each `CollectSink`, by the number of its node."""
        for node in self._graph.nodes.values():
            self._parallelism[node.id] = self._number_of_instances(node)
        # From the last node to the first, since an instance is made with the channels of its readers.
        for node in reversed(list(self._graph.nodes.values())):
            self._instances[node.id] = [
                self._station(node, index) for index in range(self._parallelism[node.id])
            ]
        for number in self._graph.nodes:
            self.stations += self._instances[number]
        self._timed = [each for each in self.stations if isinstance(each, TimestampStation)]

    def open(self) -> None:
        """Open the functions."""
        for station in self.stations:
            self._opened.append(station)
            station.open()

    def close(self) -> None:
        """Close the functions."""
        # In the order of the graph: what a function puts out as it closes still finds its readers open.
        for station in self.stations:
            station.close()

    def abandon(self) -> None:
        """Close the functions that were opened, after a failure."""
        for station in self._opened:
            station.abandon()

    def emit_watermarks(self) -> None:
        """Send the watermarks that follow from the elements so far."""
        for station in self._timed:
            station.emit_watermark()

    def tick(self, now: int) -> None:
        """Set the processing time, in ms."""
        for station in self.stations:
            station.tick(now)

    def _number_of_instances(self, node: Node) -> int:
        if isinstance(node, ONE_TO_ONE):
            return self._parallelism[node.inputs[0]]
        if isinstance(node, FromSource) and node.source.parallelism is not None:
            return node.source.parallelism
        return node.parallelism or self._job.settings.parallelism or 1

    def _station(self, node: Node, index: int) -> StreamOperator:
        parallelism = self._parallelism[node.id]
        if isinstance(node, ToSink):
            return self._sink(node, index, parallelism)
        if isinstance(node, KeyBy):
            return self._key_by(node)
        out = self._exit(node, index)
        if isinstance(node, FromSource):
            station = SourceStation(out, self._parts(node).elements(index), node.strategy)
            self.sources.append((node, station))
            return station
        if isinstance(node, (Partition, SideOutput, Union)):
            return StreamOperator(out)
        return operator_station(node, out, self._task(node, index), self._job)

    def _parts(self, node: FromSource) -> ReadParts:
        """Return the parts of a source, which its instances share."""
        if node.id not in self.read:
            position = self._positions.get(node.id)
            self.read[node.id] = ReadParts(node.source, self._parallelism[node.id], position)
        return self.read[node.id]

    def stateful(self) -> dict[int, list[OperatorStation]]:
        """Return the instances of operators with state, by the numbers of their nodes."""
        return {
            number: [each for each in self._instances[number] if isinstance(each, OperatorStation)]
            for number in self._graph.state_names
        }

    def counts(self, names: Mapping[int, str]) -> list[Count]:
        """Return the counts of the metrics of functions since the last call.

        Args:
            names: The names under which functions report, by the numbers of their nodes.

        Raises:
            UserFunctionError: A gauge raised.
        """
        return [
            Count(name, *increment)
            for number, name in names.items()
            for station in self._instances.get(number, ())
            for increment in station.take_metrics()
        ]

    def key_groups(self, number: int) -> int:
        """Return the number of key groups by which elements go to the instances of an operator.

        Args:
            number: The number of the operator's node.
        """
        return self._key_groups(self._graph.nodes[self._graph.nodes[number].inputs[0]])

    def _sink(self, node: ToSink, index: int, parallelism: int) -> StreamOperator:
        if isinstance(node.sink, CollectSink):
            append = self.collected.setdefault(node.id, deque()).append
            return SinkStation(lambda value, _: append(as_given(value)))
        writer = node.sink.writer(index, parallelism, node.type_info)
        self.writers.append(writer)
        return SinkStation(writer.write)

    def _task(self, node: Node, index: int) -> TaskInfo:
        number, count = self._subtask(node, index)
        return TaskInfo(
            node.name,
            index=number,
            parallelism=count,
            max_parallelism=self._key_groups(node),
            job_parameters=self._job.settings.job_parameters,
        )

    def _subtask(self, node: Node, index: int) -> tuple[int, int]:
        """Return the number of an instance, as functions see it, and the number of instances."""
        return index, self._parallelism[node.id]

    def _key_groups(self, node: Node) -> int:
        return node.max_parallelism or self._job.settings.max_parallelism or _KEY_GROUPS

    # Routing

    def _exit(self, node: Node, index: int) -> Output:
        """Make the output of an instance, connected to its readers."""
        main, watermarks = self._sends(node, index, self._graph.main_consumers(node))
        if not isinstance(node, _UNCHANGED):
            main = _convert(main, node, _whose(node))
        side: dict[str, list[Send]] = {}
        for reader in self._graph.side_outputs(node):
            sends, further = self._sends(node, index, ((reader, 0),))
            whose = f"{_whose(node)} with the tag {reader.tag.tag_id!r}"
            side.setdefault(reader.tag.tag_id, []).append(_convert(sends, reader, whose))
            watermarks += further
        return Output(
            main, {tag: to_all(sends) for tag, sends in side.items()}, _to_each(watermarks)
        )

    def _sends(
        self, node: Node, index: int, consumers: tuple[tuple[Node, int], ...]
    ) -> tuple[Send, list[Callable[[int], None]]]:
        sends: list[Send] = []
        watermarks: list[Callable[[int], None]] = []
        for consumer, position in consumers:
            channels = self._channels(consumer, position)
            if isinstance(consumer, WithBroadcast) and position == 1:
                sends.append(to_all([channel.element for channel in channels]))
            else:
                sends.append(route(node, index, self._parallelism[node.id], channels))
            watermarks += [channel.watermark for channel in channels]
        return to_all(sends), watermarks

    def _channels(self, node: Node, position: int) -> list[Channel]:
        return [station.channel(position) for station in self._instances[node.id]]

    def _key_by(self, node: KeyBy) -> StreamOperator:
        consumers = self._graph.consumers[node.id]
        channels = [self._channels(consumer, position) for consumer, position in consumers]
        watermark = _to_each([each.watermark for some in channels for each in some])
        # It sends elements by their keys itself, so its output takes watermarks only.
        out = Output(lambda _, __: None, {}, watermark)
        return KeyByStation(out, node, channels, self._key_groups(node))


def _to_each(watermarks: list[Callable[[int], None]]) -> Callable[[int], None]:
    if len(watermarks) == 1:
        return watermarks[0]

    def send(watermark: int) -> None:
        for each in watermarks:
            each(watermark)

    return send


def _whose(node: Node) -> str:
    """Return a name for the outputs of an operator, for messages."""
    uid = "" if node.uid is None else f" (uid {node.uid!r})"
    return f"an output of {node.name!r}{uid}"


def _convert(send: Send, node: Node, whose: str) -> Send:
    """Return a function that converts elements to the node's type, and sends them."""
    convert = converter_of(node.type_info)
    if convert is None:
        return send

    # Written out here: a wrapper around `convert` would cost each element one more call.
    def send_converted(value: Any, timestamp: int | None) -> None:
        try:
            made = convert(value)
        except StateValueError as error:
            raise misfit(f"{whose} does not fit its output type", error) from error
        send(made, timestamp)

    return send_converted
