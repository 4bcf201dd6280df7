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
from collections import Counter
from collections.abc import Iterable, Mapping

import attrs
from pyarrow import fs

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._clock import MIN_WATERMARK, Clock
from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.state_processor._folders.folder_paths import seal, unseal
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
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    damage_error,
    savepoint_location_of,
)
from pyflinklike.state_processor._savepoints.savepoint_writer import OperatorWriter

_NOTES = "_history"


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
        elif isinstance(_complete(location, former), Manifest):
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
        self._location, self._execution = location, execution
        task = uuid.uuid4().hex
        self._note = f"{_NOTES}/{run}/{task}.json"
        self._writer = OperatorWriter(location, f"part-{task}")
        self._record: OperatorRecord | None = None
        self._groups: list[int] = []
        self._times: tuple[int | None, int] = None, 0

    def add(self, index: int, record: OperatorRecord, state: Segment, clock: Clock) -> None:
        """Write all state of one key group, as `StatePart.add` asks."""
        self._writer.add(index, record, [state])
        watermark = clock.watermark if clock.watermark > MIN_WATERMARK else None
        self._record, self._times = record, (watermark, clock.processing_time)
        self._groups.append(index)

    def finish(self) -> None:
        """Close the files, and write the note; files without a note do not count."""
        if self._record is None:
            return  # a task without key groups
        operator = self._writer.finish(self._record)
        note = {
            "uid": operator.uid,
            "execution": self._execution,
            "library": __version__,
            "groups": self._groups,
            "times": self._times,
            "operator": encode_operator(operator),
        }
        self._location.write_text(self._note, seal(note))

    def abandon(self) -> None:
        """Delete the files of a task that failed."""
        self._writer.abandon()


# Completing the savepoint


def is_whole(location: SavepointLocation) -> bool:
    """Return whether a batch has written all of a savepoint that has no manifest yet.

    Raises:
        CorruptStateError: The notes of the batch are damaged.
    """
    try:
        is_there = location.exists(HISTORY)
        return is_there and isinstance(_complete(location, HistoryRun.read(location)), Manifest)
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
        manifest = _complete(location, HistoryRun.read(location))
    except FileNotFoundError:  # another process has completed it meanwhile, and deleted the notes
        return location.manifest()
    if not isinstance(manifest, Manifest):
        if location.exists(MANIFEST):
            return location.manifest()
        msg = (
            f"{location.where}: the savepoint of a batch is whole when all rows of its result were "
            f"read, got {manifest}; write the whole result somewhere, or run the batch again"
        )
        raise CorruptStateError(f"{msg}; executors and driver must reach the same files")
    # A reader that may not write makes the manifest again each time, from the same notes.
    with contextlib.suppress(OSError):
        location.finish(manifest)
        _delete_rest(location, manifest)
    return manifest


@attrs.frozen
class _Note:
    """The note that a task has written at its end.

    Args:
        execution: Spark's id of the action that ran the batch.
        library: The version of pyflinklike that wrote the files.
        groups: The indexes of the task's key groups.
        watermark: The last watermark, in ms; None if no record had an event time.
        processing_time: When the batch began, in ms.
        operator: The files of the operator.
        written_at: When the note was written, in ns.
        name: The name of the note's file.
    """

    execution: str
    library: str
    groups: frozenset[int]
    watermark: int | None
    processing_time: int
    operator: SavedOperator
    written_at: int
    name: str


_Choice = list[_Note]
"""A note for each key group of an operator."""


def _complete(location: SavepointLocation, run: HistoryRun) -> Manifest | str:
    """Return the manifest that a batch's notes make, or how much of its key groups it has written."""
    notes = _read_notes(location, run.id)
    by_operator = {
        uid: _find_choices(notes.get(uid, []), count) for uid, count in run.operators.items()
    }
    for uid, choices in by_operator.items():
        if not choices:
            ran = _by_execution(notes.get(uid, [])).values()
            most = max(
                (len(frozenset().union(*(each.groups for each in some))) for some in ran),
                default=0,
            )
            return f"{most} of {run.operators[uid]} key groups of operator {uid!r}"
    return _make_manifest(run, by_operator)


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
        watermark, processing_time = fields["times"]
        note = _Note(
            fields["execution"],
            fields["library"],
            frozenset(fields["groups"]),
            watermark,
            processing_time,
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


def _make_manifest(run: HistoryRun, by_operator: Mapping[str, Mapping[str, _Choice]]) -> Manifest:
    """Make a manifest of the choices of each operator, by execution."""
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
    marks = [note.watermark for note in every if note.watermark is not None]
    return Manifest(
        library=every[0].library,
        taken_at=max(note.written_at for note in every) // 1_000_000,
        operators=tuple(map(_join, chosen.values())),
        processing_time=max(note.processing_time for note in every),
        watermark=max(marks, default=None),
        history=run.history,
    )


def _join(choice: _Choice) -> SavedOperator:
    """Make one operator of the parts of its tasks."""
    parts = [each.operator for each in sorted(choice, key=lambda note: min(note.groups))]
    first = parts[0].record
    states = {name: said for each in parts for name, said in each.record.states.items()}
    names = dict.fromkeys(name for each in parts for name in each.states)
    domains = sum((Counter(each.domains) for each in parts), Counter[str]())
    return SavedOperator(
        attrs.evolve(first, states=states),
        {
            name: _join_rows(each.states[name] for each in parts if name in each.states)
            for name in names
        },
        _join_rows(each.timers for each in parts),
        dict(domains),
    )


def _join_rows(parts: Iterable[SavedRows]) -> SavedRows:
    every = list(parts)
    files: tuple[SavedFile, ...] = tuple(file for each in every for file in each.files)
    return SavedRows(sum(each.rows for each in every), files)


def _delete_rest(location: SavepointLocation, manifest: Manifest) -> None:
    """Delete the files of other attempts, and the notes, which a whole savepoint does not need."""
    named = {file.path for operator in manifest.operators for file in operator.files()}
    below = fs.FileSelector(location.path("operators"), recursive=True, allow_not_found=True)
    for info in location.filesystem.get_file_info(below):
        name = info.path[len(location.root) + 1 :]
        if name.endswith(".parquet") and name not in named:
            location.filesystem.delete_file(info.path)
    if location.exists(_NOTES):
        location.filesystem.delete_dir(location.path(_NOTES))
    location.filesystem.delete_file(location.path(HISTORY))
