# SPDX-License-Identifier: Apache-2.0
"""A savepoint that a batch writes: its tasks write parts, and the first reader completes it.

    _history.json                      which batch writes it: its operators and their key groups
    operators/.../part-<task>-1.parquet  rows of a state, of the key groups of one task
    _history/<run>/<task>.json         the note of a task that has ended: its key groups and files
    _manifest.json                     written last: now the directory is a savepoint

A task writes files under names that no other attempt has, and its note at its end.  So a task that
fails leaves files without a note, and a task that runs twice leaves two notes of the same key groups.
The savepoint is whole when one execution of the batch has a note for every key group of an operator.
The number of tasks is not known, because Spark may drop a task without records or join two tasks.  It
need not be known, because every key group gets a record that ends it.

The manifest names the files of one note for each key group.  The files of other attempts are deleted.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.stored_table import sort_rows
from pyflinklike._clock import MIN_WATERMARK, Clock
from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.manifest import (
    HISTORY,
    MANIFEST,
    Manifest,
    SavedFile,
    SavedHistory,
    SavedOperator,
    SavedRows,
    decode_operator,
    encode_operator,
    folder_of,
    seal,
    unseal,
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    damage_error,
    savepoint_location_of,
)

__all__ = [
    "BatchTimes",
    "HistoryPlan",
    "HistoryRun",
    "PartWriter",
    "begin_history",
    "is_whole",
    "read_manifest",
]

_NOTES = "_history"
_ROWS_PER_FILE = 1_000_000
_DOMAINS = ("event_time", "processing_time")


@attrs.frozen
class HistoryRun:
    """A batch that writes a savepoint.

    Args:
        history: The id, the sources and the lateness of the batch.
        operators: The number of key groups of each operator, by uid.
    """

    history: SavedHistory
    operators: Mapping[str, int]

    @property
    def id(self) -> str:
        """The id of the batch."""
        return self.history.run

    def to_json(self) -> str:
        """Return the text to store."""
        return seal(
            {"history": attrs.asdict(self.history), "operators": dict(self.operators)},
        )

    @classmethod
    def read(cls, location: SavepointLocation) -> HistoryRun:
        """Read the text that `to_json` made.

        Raises:
            CorruptStateError: The text is damaged.
        """
        fields = unseal(location.read_text(HISTORY))
        if fields is None:
            raise damage_error(location, f"{HISTORY} must be as it was written, got another text")
        return cls(SavedHistory.from_json(fields["history"]), fields["operators"])


@attrs.frozen
class BatchTimes:
    """The clock at the end of a batch, in ms.

    Args:
        watermark: The last watermark; None if no record had an event time.
        processing_time: When the batch began.
    """

    watermark: int | None
    processing_time: int


# On the driver, before the batch


def begin_history(
    location: SavepointLocation, history: SavedHistory, uid: str, max_parallelism: int
) -> None:
    """Note that an operator of a batch writes its state to a directory.

    Args:
        location: A new directory, an unfinished one, or one with another operator of this batch.
        history: The batch that writes the savepoint.
        uid: The uid of the operator.
        max_parallelism: The number of the operator's key groups.

    Raises:
        DeclarationValueError: The directory has other contents, or the batch has the uid twice.
        CorruptStateError: The notes of a former batch are damaged.
    """
    location.refuse_checkpoint()
    operators: dict[str, int] = {}
    if location.exists(MANIFEST):
        raise _there(location, "a savepoint")
    if location.exists(HISTORY):
        former = HistoryRun.read(location)
        if former.id == history.run:
            operators = dict(former.operators)
        elif _find_missing(location, former) is None:
            raise _there(location, "a savepoint")
    elif location.exists() and location.filesystem.get_file_info(fs.FileSelector(location.root)):
        raise _there(location, "a directory")
    if uid in operators:
        msg = f"{location.where}: the operators of a batch have different uids, got {uid!r} twice"
        raise DeclarationValueError(f"{msg}; pass uid=... to process()")
    run = HistoryRun(history, {**operators, uid: max_parallelism})
    location.write_text(HISTORY, run.to_json())


def _there(location: SavepointLocation, what: str) -> DeclarationValueError:
    msg = f"{location.where}: must not exist before a batch writes it, got {what}"
    return DeclarationValueError(
        f"{msg}; begin a stream with it (from_savepoint), or give another path"
    )


# In a task


@attrs.frozen
class HistoryPlan:
    """The savepoint that a batch writes, as its tasks get it.

    Args:
        uri: The address of its directory.
        run: The id of the batch.
        delay: How late records may be, in ms; None if they do not come in the order of event times.
    """

    uri: str
    run: str
    delay: int | None

    def open_part(self, execution: str) -> PartWriter:
        """Begin to write the state of one task.

        Args:
            execution: Spark's id of the action that runs the batch; a batch may run twice.
        """
        return PartWriter(savepoint_location_of(self.uri), self.run, execution)


class PartWriter:
    """Writes the states of the key groups of one task.

    Args:
        location: The directory of the savepoint.
        run: The id of the batch.
        execution: Spark's id of the action that runs the batch.
    """

    def __init__(self, location: SavepointLocation, run: str, execution: str) -> None:
        self._location, self._run, self._execution = location, run, execution
        self._task = uuid.uuid4().hex
        self._record: OperatorRecord | None = None
        self._groups: list[int] = []
        self._times: BatchTimes | None = None
        self._open: dict[str, _RowsWriter] = {}
        self._domains = dict.fromkeys(_DOMAINS, 0)

    def add(self, index: int, record: OperatorRecord, state: Segment, clock: Clock) -> None:
        """Write all state of one key group, as `StatePart.add` asks."""
        where, uid = self._location.where, record.identity.name
        keys = KeyColumns.of(record).names
        for info in describe_states(record, 0):
            # All key groups have the same broadcast state, so a savepoint takes it from one.
            only = 0 if info.kind == "broadcast" else None
            rows = StateRows.of(record, info, saved=True)
            reader = GroupStateReader(rows, None, only=only)
            self._write(folder_of(uid, info.name), keys, reader.read(index, [state], where))
        timers = list(TimersReader(record, None).read(index, [state], where))
        for table in timers:
            for domain in _DOMAINS:
                self._domains[domain] += table.column("domain").to_pylist().count(domain)
        self._write(folder_of(uid, None), keys, timers)
        watermark = clock.watermark if clock.watermark > MIN_WATERMARK else None
        self._record, self._times = record, BatchTimes(watermark, clock.processing_time)
        self._groups.append(index)

    def _write(self, folder: str, keys: Sequence[str], tables: Iterable[pa.Table]) -> None:
        for table in tables:
            if table.num_rows:
                writer = self._open.setdefault(
                    folder, _RowsWriter(self._location, folder, self._task)
                )
                writer.write(_sort(table, keys))

    def finish(self) -> None:
        """Close the files, and write the note; files without a note do not count."""
        if self._record is None or self._times is None:
            return  # a task without key groups
        uid = self._record.identity.name
        states = {
            info.name: self._rows(folder_of(uid, info.name))
            for info in describe_states(self._record, 0)
        }
        domains = {each: count for each, count in self._domains.items() if count}
        timers = self._rows(folder_of(uid, None))
        note = {
            "uid": uid,
            "execution": self._execution,
            "library": __version__,
            "groups": self._groups,
            "times": attrs.asdict(self._times),
            "operator": encode_operator(SavedOperator(self._record, states, timers, domains)),
        }
        self._location.write_text(f"{_NOTES}/{self._run}/{self._task}.json", seal(note))

    def _rows(self, folder: str) -> SavedRows:
        return self._open[folder].close() if folder in self._open else SavedRows(0)

    def abandon(self) -> None:
        """Delete the files of a task that failed."""
        for each in self._open.values():
            each.delete()


class _RowsWriter:
    """Writes the rows of one state to files of a folder."""

    def __init__(self, location: SavepointLocation, folder: str, task: str) -> None:
        self._location, self._stem = location, f"{folder}/part-{task}"
        self._names: list[str] = []
        self._writer: Any = None
        self._rows_of_file = self._rows = 0
        location.filesystem.create_dir(location.path(folder))

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            name = f"{self._stem}-{len(self._names)}.parquet"
            self._names.append(name)
            self._writer = pq.ParquetWriter(
                self._location.path(name),
                table.schema,
                filesystem=self._location.filesystem,
                compression="zstd",
                write_page_checksum=True,
            )
        self._writer.write_table(table)
        self._rows += table.num_rows
        self._rows_of_file += table.num_rows
        if self._rows_of_file >= _ROWS_PER_FILE:
            self._end_file()

    def _end_file(self) -> None:
        writer, self._writer, self._rows_of_file = self._writer, None, 0
        if writer is not None:
            writer.close()

    def close(self) -> SavedRows:
        self._end_file()
        return SavedRows(self._rows, self._location.measure_files(self._names))

    def delete(self) -> None:
        with contextlib.suppress(pa.ArrowException, OSError):
            self._end_file()
        for name in self._names:
            with contextlib.suppress(OSError):
                self._location.filesystem.delete_file(self._location.path(name))


def _sort(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort the rows of a key group by key: then a file's statistics say which keys it may have."""
    names = [
        name
        for name in keys
        if name in table.column_names and not pa.types.is_nested(table.schema.field(name).type)
    ]
    return sort_rows(table, names)


# Completing the savepoint


def is_whole(location: SavepointLocation) -> bool:
    """Return whether a batch has written all of a savepoint that has no manifest yet.

    Raises:
        CorruptStateError: The notes of the batch are damaged.
    """
    try:
        is_there = location.exists(HISTORY)
        return is_there and _find_missing(location, HistoryRun.read(location)) is None
    except FileNotFoundError:  # another process has completed it meanwhile, and deleted the notes
        return location.exists(MANIFEST)


def read_manifest(location: SavepointLocation) -> Manifest:
    """Read the manifest of a savepoint; if a batch has written all parts, make the manifest first.

    Raises:
        CorruptStateError: There is no savepoint, it is damaged, or the batch's result was not read
            to its end.
    """
    if location.exists(MANIFEST) or not location.exists(HISTORY):
        return location.manifest()
    try:
        run = HistoryRun.read(location)
        missing = _find_missing(location, run)
        manifest = None if missing is not None else _make_manifest(location, run)
    except FileNotFoundError:  # another process has completed it meanwhile, and deleted the notes
        return location.manifest()
    if manifest is None:
        if location.exists(MANIFEST):
            return location.manifest()
        msg = (
            f"{location.where}: the savepoint of a batch is whole when all rows of its result were "
            f"read, got {missing}; write the whole result somewhere, or run the batch again"
        )
        raise CorruptStateError(f"{msg}; executors and driver must reach the same files")
    # A reader that may not write makes the manifest again each time, from the same notes.
    with contextlib.suppress(OSError):
        location.finish(manifest)
        _delete_rest(location, manifest)
    return manifest


@attrs.frozen
class _Note:
    """The note that a task has written at its end."""

    execution: str
    library: str
    groups: frozenset[int]
    times: BatchTimes
    operator: SavedOperator
    written_at: int
    name: str


_Choice = list[_Note]
"""A note for each key group of an operator."""


def _find_missing(location: SavepointLocation, run: HistoryRun) -> str | None:
    """Return how much of its key groups a batch has written, or None if it has written all."""
    notes = _read_notes(location, run.id)
    for uid, count in run.operators.items():
        choices = _find_choices(notes.get(uid, []), count)
        if not choices:
            most = max(map(_count_groups, _by_execution(notes.get(uid, [])).values()), default=0)
            return f"{most} of {count} key groups of operator {uid!r}"
    return None


def _count_groups(notes: Iterable[_Note]) -> int:
    return len(frozenset().union(*(each.groups for each in notes)))


def _read_notes(location: SavepointLocation, run: str) -> dict[str, list[_Note]]:
    """Read the notes of a batch, by operator."""
    folder = fs.FileSelector(location.path(f"{_NOTES}/{run}"), allow_not_found=True)
    found: dict[str, list[_Note]] = {}
    for info in sorted(location.filesystem.get_file_info(folder), key=lambda each: each.path):
        if not info.base_name.endswith(".json"):
            continue  # a note whose task still writes it, under another name
        name = f"{_NOTES}/{run}/{info.base_name}"
        fields = unseal(location.read_text(name))
        if fields is None:
            raise damage_error(location, f"{name} must be as it was written, got another text")
        note = _Note(
            fields["execution"],
            fields["library"],
            frozenset(fields["groups"]),
            BatchTimes(**fields["times"]),
            decode_operator(fields["operator"], location.where),
            info.mtime_ns or 0,
            info.base_name,
        )
        found.setdefault(fields["uid"], []).append(note)
    return found


def _by_execution(notes: Iterable[_Note]) -> dict[str, list[_Note]]:
    found: dict[str, list[_Note]] = {}
    for each in notes:
        found.setdefault(each.execution, []).append(each)
    return found


def _find_choices(notes: Iterable[_Note], count: int) -> dict[str, _Choice]:
    """Return a note for each key group, by execution, for executions that have them all."""
    choices = {}
    for execution, mine in _by_execution(notes).items():
        left, chosen = set(range(count)), []
        # If a task has several attempts, Spark takes the first that ends.
        for each in sorted(mine, key=lambda note: (note.written_at, note.name)):
            if each.groups <= left:
                left -= each.groups
                chosen.append(each)
        if not left:
            choices[execution] = chosen
    return choices


def _make_manifest(location: SavepointLocation, run: HistoryRun) -> Manifest:
    notes = _read_notes(location, run.id)
    by_operator = {uid: _find_choices(notes[uid], count) for uid, count in run.operators.items()}
    ended = {
        execution: max(note.written_at for note in choice)
        for choices in by_operator.values()
        for execution, choice in choices.items()
    }

    def rank(execution: str) -> tuple[int, int]:
        """Prefer an execution that ran all operators, then the first."""
        ran = sum(execution in choices for choices in by_operator.values())
        return -ran, ended[execution]

    chosen = {uid: choices[min(choices, key=rank)] for uid, choices in by_operator.items()}
    every = [note for choice in chosen.values() for note in choice]
    marks = [note.times.watermark for note in every if note.times.watermark is not None]
    return Manifest(
        library=every[0].library,
        taken_at=max(note.written_at for note in every) // 1_000_000,
        operators=tuple(map(_join, chosen.values())),
        processing_time=max(note.times.processing_time for note in every),
        watermark=max(marks, default=None),
        history=run.history,
    )


def _join(choice: _Choice) -> SavedOperator:
    """Make one operator of the parts of its tasks."""
    parts = [each.operator for each in sorted(choice, key=lambda note: min(note.groups))]
    first = parts[0].record
    states = {name: said for each in parts for name, said in each.record.states.items()}
    names = list(dict.fromkeys(name for each in parts for name in each.states))
    return SavedOperator(
        attrs.evolve(first, states=states),
        {
            name: _join_rows(each.states[name] for each in parts if name in each.states)
            for name in names
        },
        _join_rows(each.timers for each in parts),
        {
            domain: count
            for domain in _DOMAINS
            if (count := sum(each.domains.get(domain, 0) for each in parts))
        },
    )


def _join_rows(parts: Iterable[SavedRows]) -> SavedRows:
    every = list(parts)
    files: tuple[SavedFile, ...] = tuple(file for each in every for file in each.files)
    return SavedRows(sum(each.rows for each in every), files)


def _delete_rest(location: SavepointLocation, manifest: Manifest) -> None:
    """Delete the files of other attempts, and the notes, which a whole savepoint does not need."""
    named = {
        file.path
        for operator in manifest.operators
        for rows in (*operator.states.values(), operator.timers)
        for file in rows.files
    }
    for name in _parquet_files(location):
        if name not in named:
            location.filesystem.delete_file(location.path(name))
    if location.exists(_NOTES):
        location.filesystem.delete_dir(location.path(_NOTES))
    location.filesystem.delete_file(location.path(HISTORY))


def _parquet_files(location: SavepointLocation) -> Iterator[str]:
    below = fs.FileSelector(location.path("operators"), recursive=True, allow_not_found=True)
    for info in location.filesystem.get_file_info(below):
        if info.base_name.endswith(".parquet"):
            yield info.path[len(location.root) + 1 :]
