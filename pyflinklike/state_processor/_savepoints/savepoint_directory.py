# SPDX-License-Identifier: Apache-2.0
"""Reads a savepoint: states as Arrow datasets, without Spark and without the program.

A savepoint is a directory at a path, or at an address that Arrow knows, such as s3://.

    open_savepoint("/savepoints/visits").dataset("count").to_table()
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Section, Segment
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import IncompatibleStateError, PyflinklikeError, SparkSetupError
from pyflinklike.state_processor._logs.checkpoint_logs import Checked, Finding
from pyflinklike.state_processor._logs.group_reader import TimersReader
from pyflinklike.state_processor._logs.state_infos import (
    StateInfos,
    describe_states,
)
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.history_parts import is_whole, read_manifest
from pyflinklike.state_processor._savepoints.manifest import (
    MANIFEST,
    Manifest,
    SavedFile,
    SavedOperator,
    SavedRows,
    folder_of,
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    decode_file,
    savepoint_location_of,
)
from pyflinklike.state_processor._savepoints.stored_sections import (
    sections_of_rows,
    sections_of_timers,
)


@attrs.frozen
class SavepointDirectory:
    """An opened savepoint.

    Args:
        location: The directory of the savepoint.
        manifest: The manifest, which names its operators and files.
    """

    location: SavepointLocation
    manifest: Manifest

    @classmethod
    def at(cls, location: SavepointLocation) -> SavepointDirectory:
        """Open the savepoint at a location.

        Raises:
            CorruptStateError: There is no savepoint, or its manifest is damaged.
        """
        return cls(location, read_manifest(location))

    def operators(self) -> list[str]:
        """Return the uids of its operators."""
        return [each.uid for each in self.manifest.operators]

    def states(self, operator: str | None = None) -> StateInfos:
        """Return the states and stores of one operator, or of all.

        Args:
            operator: The uid of the operator; None returns the states of all operators.

        Raises:
            UnknownStateError: There is no such operator.
        """
        if operator is None:
            chosen: Sequence[SavedOperator] = self.manifest.operators
        else:
            chosen = [self.manifest.operator(operator, self.location.where)]
        return StateInfos(
            attrs.evolve(
                info, entries=each.states[info.name].rows, bytes=_size(each.states[info.name])
            )
            for number, each in enumerate(chosen)
            for info in describe_states(each.record, number)
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.location.where)}</p>{self.states()._repr_html_()}"

    def record(self, operator: str | None = None) -> OperatorRecord:
        """Return the record of an operator, which declares its states.

        Args:
            operator: The uid of the operator; leave it out if there is only one.

        Raises:
            UnknownStateError: There is no such operator.
        """
        return self.manifest.operator(operator, self.location.where).record

    def dataset(self, state: str, operator: str | None = None) -> Any:
        """Return the rows of a state as a `pyarrow.dataset`: columns of `read_state`, stamps in ms.

        Its files are read once for their checksums.

        Args:
            state: The name of the state or store.
            operator: The uid of the operator; leave it out if there is only one.

        Raises:
            UnknownStateError: There is no such state or operator.
            CorruptStateError: A file of the state is missing or was changed.
        """
        found = self.manifest.operator(operator, self.location.where)
        rows = self.rows_of(found, state)
        return self._dataset(found.states[state], rows.schema)

    def timers(self, operator: str | None = None) -> Any:
        """Return the timers as a `pyarrow.dataset`: key columns, `domain`, `timestamp` in ms.

        Its files are read once for their checksums.

        Args:
            operator: The uid of the operator; leave it out if there is only one.

        Raises:
            UnknownStateError: There is no such operator.
            CorruptStateError: A file of the timers is missing or was changed.
        """
        found = self.manifest.operator(operator, self.location.where)
        return self._dataset(found.timers, TimersReader(found.record, None).schema)

    def rows_of(self, operator: SavedOperator, state: str) -> StateRows:
        """Return the description of a state's rows.

        Raises:
            UnknownStateError: There is no such state.
        """
        return StateRows.saved_of(operator.record, state, self.location.where)

    def _dataset(self, saved: SavedRows, schema: pa.Schema) -> Any:
        from pyarrow import dataset  # if pandas is installed, this imports it, which is slow

        if not saved.files:
            return dataset.dataset(pa.table([[] for _ in schema], schema=schema))
        # A page may be damaged and still be decoded, and an old file may have fewer rows.
        self.location.verify(saved.files)
        paths = [self.location.path(each.path) for each in saved.files]
        return dataset.dataset(
            paths, schema=schema, format="parquet", filesystem=self.location.filesystem
        )

    def verify(self) -> None:
        """Compare every file with its checksum in the manifest.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        self.location.verify(each for one in self.manifest.operators for each in one.files())

    def segment(self, operator: str | None = None) -> Segment:
        """Return all state of an operator as one snapshot, such as a harness restores.

        Args:
            operator: The uid of the operator; leave it out if there is only one.

        Raises:
            UnknownStateError: There is no such operator.
            CorruptStateError: A file is missing or was changed.
            StateValueError: A value does not fit its type.
            IncompatibleStateError: A key does not fit its type.
        """
        found = self.manifest.operator(operator, self.location.where)
        snapshot = Segment(os.urandom(16), b"")
        for section in self._sections(found):
            table_id = next(
                (at for at, each in snapshot.declarations.items() if each == section.declaration),
                len(snapshot.declarations),
            )
            snapshot.declarations[table_id] = section.declaration
            snapshot.sections.append((table_id, section.payload))
        return snapshot

    def _sections(self, operator: SavedOperator) -> Iterator[Section]:
        for name, saved in operator.states.items():
            rows = self.rows_of(operator, name)
            yield from sections_of_rows(rows, self._table(saved, rows.schema))
        timers = self._table(operator.timers, TimersReader(operator.record, None).schema)
        yield from sections_of_timers(operator.record, timers)

    def _table(self, saved: SavedRows, schema: pa.Schema) -> pa.Table:
        tables = list(self.location.tables(saved.files, schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()


def _size(saved: SavedRows) -> int:
    return sum(each.bytes for each in saved.files)


def open_savepoint(path: str | os.PathLike[str]) -> SavepointDirectory:
    """Open a savepoint that `take_savepoint` or a harness has written, without Spark or Java.

    Args:
        path: The path of the directory, or its address (such as `s3://...`).

    Raises:
        DeclarationTypeError, DeclarationValueError: The argument is not a path or a known address.
        CorruptStateError: There is no savepoint, or its manifest is damaged.
    """
    return SavepointDirectory.at(savepoint_location_of(path))


def is_savepoint(path: str | os.PathLike[str]) -> bool:
    """Return whether a whole savepoint is at a path.

    A batch with `savepoint_to` has written a whole savepoint when its result was read to its end.  A
    program asks this when it is started again, to find out whether the batch has to run.

    Args:
        path: The path or address of the directory, as `open_savepoint` takes it.

    Raises:
        DeclarationTypeError, DeclarationValueError: The argument is not a path or a known address.
        CorruptStateError: The notes of the batch are damaged.
    """
    location = savepoint_location_of(path)
    return location.exists(MANIFEST) or is_whole(location)


# Beginning with it


def check_fit(
    record: OperatorRecord | None,
    timers: Mapping[str, int],
    max_parallelism: int,
    refused: Mapping[TimeDomain, PyflinklikeError],
    where: str = "savepoint",
) -> None:
    """Check that a host can begin with an operator of a savepoint; every host asks this first.

    Args:
        record: The operator's record; None for a savepoint in bytes, which lacks it.
        timers: The number of the operator's timers, by time domain.
        max_parallelism: The number of key groups into which the host divides its state.
        refused: The time domains whose timers the host never fires, each with the remedy.
        where: The name of the savepoint, for messages.

    Raises:
        SparkSetupError: The savepoint holds timers that would never fire.
        IncompatibleStateError: The state of a key group would have to be divided.
    """
    for domain, error in refused.items():
        if timers.get(domain.name.lower()):
            msg = f"the savepoint holds timers that would never fire: {error}"
            raise SparkSetupError(msg) from error
    if record is None:
        return
    former = record.identity.max_parallelism
    for info in describe_states(record, 0):
        if info.options.get("scope") == "partition" and former != max_parallelism:
            msg = (
                f'{where}: a store of scope "partition" stays in its key group, got {info.name!r} of '
                f"{former} key groups for {max_parallelism}; keep their number (max_parallelism, or "
                "the parallelism of the job), or leave the store out with remove_state()"
            )
            raise IncompatibleStateError(msg)


# Checking the files against the manifest


def check_savepoint(saved: SavepointDirectory) -> tuple[list[Finding], Checked]:
    """Return all damage of an opened savepoint, and the amount that was checked."""
    found = list(_find_unnamed(saved))
    checked = Checked()
    for operator in saved.manifest.operators:
        for what, rows, schema in _parts(saved, operator, found):
            found += _of_rows(saved.location, what, rows, schema)
            checked += Checked(entries=rows.rows, files=len(rows.files))
    return found, checked


def _find_unnamed(saved: SavepointDirectory) -> Iterator[Finding]:
    """Find files that are not the savepoint's, but that other tools would read with its files."""
    location = saved.location
    for operator in saved.manifest.operators:
        states = [(name, operator.states[name]) for name in operator.states]
        for name, rows in [*states, (None, operator.timers)]:
            named = {each.path for each in rows.files}
            for path in location.files_in(folder_of(operator.uid, name)):
                if path not in named:
                    msg = f"{location.where}: the manifest must name every Parquet file, got {path}"
                    yield Finding("file", f"{msg} besides")


def _parts(
    saved: SavepointDirectory, operator: SavedOperator, found: list[Finding]
) -> Iterator[tuple[str, SavedRows, pa.Schema]]:
    for name, rows in operator.states.items():
        try:
            schema = saved.rows_of(operator, name).schema
        except PyflinklikeError as error:
            found.append(Finding("manifest", str(error)))
        else:
            yield f"state {name!r}", rows, schema
    yield "timers", operator.timers, TimersReader(operator.record, None).schema


def _of_rows(
    location: SavepointLocation, what: str, saved: SavedRows, schema: pa.Schema
) -> Iterator[Finding]:
    there = 0
    for each in saved.files:
        found = _of_file(location, each, schema)
        if isinstance(found, Finding):
            yield found
            there = saved.rows  # a damaged file is reported once, not as missing rows as well
        else:
            there += found
    if there != saved.rows:
        msg = f"{location.where}, {what}: the manifest counts {saved.rows} rows, got {there}"
        yield Finding("counts", msg)


def _of_file(location: SavepointLocation, saved: SavedFile, schema: pa.Schema) -> Finding | int:
    """Return the damage of a file, or the number of its rows."""
    where = f"{location.where}, file {saved.path}"
    try:
        read = location.read_file(saved)
        if isinstance(read, str):
            return Finding("file", f"{location.where}: {read}")
        table = decode_file(read, schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        return Finding("file", f"{where}: it must hold the rows that were written, got {error}")
    return int(table.num_rows)
