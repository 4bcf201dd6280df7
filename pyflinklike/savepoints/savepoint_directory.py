# SPDX-License-Identifier: Apache-2.0
"""A savepoint for its reader: states as datasets, without Spark and without the program.

It is a directory at a path, or at an address that Arrow knows, such as s3://.
"""

from __future__ import annotations

import hashlib
import html
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from pyflinklike.engine.inspection.group_reader import StateReader, TimersReader
from pyflinklike.engine.inspection.log_check import Checked, Finding
from pyflinklike.engine.inspection.state_infos import (
    StateInfo,
    StateInfos,
    describe_states,
    state_of,
)
from pyflinklike.engine.inspection.state_rows import StateRows
from pyflinklike.engine.log.operator_record import OperatorRecord
from pyflinklike.engine.log.segments import Section, Segment
from pyflinklike.engine.shown import shown
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
)
from pyflinklike.savepoints.manifest import (
    MANIFEST,
    Manifest,
    SavedFile,
    SavedOperator,
    SavedRows,
    folder_of,
)
from pyflinklike.savepoints.stored_sections import sections_of_rows, sections_of_timers

__all__ = [
    "SavepointDirectory",
    "SavepointLocation",
    "check_savepoint",
    "open_savepoint",
    "savepoint_location_of",
    "write_log",
    "write_operator",
]


@attrs.frozen
class SavepointDirectory:
    """An opened savepoint.

    Args:
        location: The directory that it is in.
        manifest: Its description of itself.
    """

    location: SavepointLocation
    manifest: Manifest

    def operators(self) -> list[str]:
        """Return the uids of its operators."""
        return [each.uid for each in self.manifest.operators]

    def states(self, operator: str | None = None) -> StateInfos:
        """Return the states and stores of one operator, or of all.

        Args:
            operator: Uid of the operator; None for all operators.

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

    def dataset(self, state: str, operator: str | None = None) -> Any:
        """Return the rows of a state as a `pyarrow.dataset`: columns of `read_state`, stamps in ms.

        Its files are read once for their checksums.

        Args:
            state: Name of the state or store.
            operator: Uid of the operator; may be left out if there is only one.

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
            operator: Uid of the operator; may be left out if there is only one.

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
        info = state_of(describe_states(operator.record, 0), state, self.location.where)
        return StateRows.of(operator.record, info, saved=True)

    def _dataset(self, saved: SavedRows, schema: pa.Schema) -> Any:
        from pyarrow import dataset  # it imports pandas where that is installed

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
        self.location.verify(
            each
            for operator in self.manifest.operators
            for saved in (*operator.states.values(), operator.timers)
            for each in saved.files
        )

    def segment(self, operator: str | None = None) -> Segment:
        """Return all state of an operator as one snapshot, such as a harness restores.

        Args:
            operator: Uid of the operator; may be left out if there is only one.

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
        for name in operator.states:
            rows = self.rows_of(operator, name)
            yield from sections_of_rows(rows, self.dataset(name, operator.uid).to_table())
        yield from sections_of_timers(operator.record, self.timers(operator.uid).to_table())


def _size(saved: SavedRows) -> int:
    return sum(each.bytes for each in saved.files)


def open_savepoint(path: str | os.PathLike[str]) -> SavepointDirectory:
    """Open a savepoint that `take_savepoint` or a harness has written, without Spark or Java.

    Args:
        path: Path of the directory, or its address (such as `s3://...`).

    Raises:
        DeclarationTypeError, DeclarationValueError: The path is none.
        CorruptStateError: There is no savepoint, or its manifest is damaged.
    """
    location = savepoint_location_of(path)
    return SavepointDirectory(location, location.manifest())


# Writing


def write_log(
    location: SavepointLocation,
    record: OperatorRecord,
    log: list[Segment],
    library: str,
    taken_at: int,
) -> None:
    """Write all state of one key group, such as a harness has, as a savepoint.

    Args:
        location: An empty directory, or one that does not exist yet.
        record: Record of the operator.
        log: Log of the key group.
        library: Version of pyflinklike.
        taken_at: Time of now, in ms.
    """
    operator = write_operator(location, record, log)
    # Last of all: a directory without a manifest is no savepoint.
    location.finish(Manifest(library, taken_at, (operator,)))


def write_operator(
    location: SavepointLocation, record: OperatorRecord, log: list[Segment]
) -> SavedOperator:
    """Write the files of an operator, and return what the manifest says of them.

    Args:
        location: The directory of the savepoint.
        record: Record of the operator.
        log: Its entries.  Segments that each need no other may follow one another, if their keys differ.
    """
    states = {
        info.name: _write_state(location, record, log, info) for info in describe_states(record, 0)
    }
    reader, folder = TimersReader(record, None), folder_of(record.identity.name, None)
    timers = [each for each in reader.read(0, log, location.where) if each.num_rows]
    domains = {
        domain: sum(each.column("domain").to_pylist().count(domain) for each in timers)
        for domain in ("event_time", "processing_time")
    }
    return SavedOperator(record, states, _write(location, folder, timers), domains)


def _write_state(
    location: SavepointLocation, record: OperatorRecord, log: list[Segment], info: StateInfo
) -> SavedRows:
    reader = StateReader(StateRows.of(record, info, saved=True), None)
    tables = [each for each in reader.read(0, log, location.where) if each.num_rows]
    return _write(location, folder_of(record.identity.name, info.name), tables)


def _write(location: SavepointLocation, folder: str, tables: Iterable[pa.Table]) -> SavedRows:
    every = list(tables)
    if not every:
        return SavedRows(0)
    table = pa.concat_tables(every)
    location.filesystem.create_dir(location.path(folder))
    name = f"{folder}/part-0.parquet"
    pq.write_table(
        table,
        location.path(name),
        filesystem=location.filesystem,
        compression="zstd",
        write_page_checksum=True,
    )
    return SavedRows(table.num_rows, (location.measure_file(name),))


# The directory


_CHUNK = 1 << 20
_READERS = 4
"""Number of files read at a time: from an object store, waiting takes most of the time."""


@attrs.frozen
class SavepointLocation:
    """A directory that is a savepoint, or becomes one.

    Args:
        address: The address as it was given.
        filesystem: Arrow's filesystem.
        root: The path in it, without a slash at its end.
        uri: The absolute path or address at which Spark finds it, without a slash at its end.
    """

    address: str
    filesystem: Any
    root: str
    uri: str

    @property
    def where(self) -> str:
        """The name of the savepoint in messages."""
        return f"savepoint {self.address!r}"

    def path(self, name: str) -> str:
        """Return the path of a file in the filesystem."""
        return f"{self.root}/{name}"

    def exists(self, name: str = "") -> bool:
        """Return whether the directory is there, or a file in it."""
        info = self.filesystem.get_file_info(self.path(name) if name else self.root)
        return bool(info.type != fs.FileType.NotFound)

    def manifest(self) -> Manifest:
        """Read the savepoint's description of itself.

        Raises:
            CorruptStateError: There is no manifest, or it is damaged.
        """
        if not self.exists(MANIFEST):
            msg = f"{self.where}: a savepoint has a {MANIFEST}, which is written last, got none"
            remedy = "give the directory of one that was finished"
            written = self._beside("new")
            if not self.exists() and written.exists(MANIFEST):
                remedy = f"replacing it broke off when the new one was whole: move {written.address!r} here"
            raise CorruptStateError(f"{msg}; {remedy}")
        with self.filesystem.open_input_file(self.path(MANIFEST)) as file:
            text = bytes(file.read()).decode(errors="replace")
        return Manifest.from_json(text, self.where)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the directory a savepoint."""
        # Written beside and moved: a half-written manifest must not look like a damaged savepoint.
        hidden = self.path(f"{MANIFEST}.new")
        self.filesystem.create_dir(self.root)
        with self.filesystem.open_output_stream(hidden) as file:
            file.write(manifest.to_json().encode())
        self.filesystem.move(hidden, self.path(MANIFEST))

    def measure_file(self, name: str) -> SavedFile:
        """Return a file of the directory with its size and checksum."""
        digest, size = hashlib.sha256(), 0
        with self.filesystem.open_input_stream(self.path(name), compression=None) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return SavedFile(name, size, digest.hexdigest())

    def measure_files(self, names: Iterable[str]) -> tuple[SavedFile, ...]:
        """Return files of the directory with their sizes and checksums."""
        with ThreadPoolExecutor(_READERS) as readers:
            return tuple(readers.map(self.measure_file, names))

    def verify(self, files: Iterable[SavedFile]) -> None:
        """Check that files are those that were written.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        with ThreadPoolExecutor(_READERS) as readers:
            for misfit in readers.map(self.misfit, files):
                if misfit is not None:
                    raise damage_error(self, misfit)

    def misfit(self, saved: SavedFile) -> str | None:
        """Say how a file differs from the one that was written; None if it does not."""
        if not self.exists(saved.path):
            return f"a file is missing, got no {saved.path}"
        found = self.measure_file(saved.path)
        if found == saved:
            return None
        rule = f"{saved.path} must have {saved.bytes} bytes with the checksum {saved.sha256}"
        return f"{rule}, got {found.bytes} with {found.sha256}"

    def rows_in(self, name: str) -> int:
        """Count the rows of a Parquet file by its own metadata."""
        metadata = pq.read_metadata(self.path(name), filesystem=self.filesystem)
        return int(metadata.num_rows)

    def count_by(
        self, files: Iterable[SavedFile], column: str, values: Iterable[str]
    ) -> dict[str, int]:
        """Count the rows of Parquet files that have each of these values in a column."""
        from pyarrow import dataset  # it imports pandas where that is installed

        paths = [self.path(each.path) for each in files]
        if not paths:
            return {}
        rows = dataset.dataset(paths, format="parquet", filesystem=self.filesystem)
        counts = {each: rows.count_rows(filter=pc.field(column) == each) for each in values}
        return {each: number for each, number in counts.items() if number}

    def files_in(self, folder: str) -> list[str]:
        """Return the names of the Parquet files in a folder, sorted."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        names = [info.base_name for info in self.filesystem.get_file_info(selector)]
        return sorted(f"{folder}/{name}" for name in names if name.endswith(".parquet"))

    def begin(self, mode: str) -> SavepointLocation:
        """Return where to write a savepoint meant for here: here, or beside the one that is here.

        Raises:
            DeclarationValueError: There is something here that must stay, or that is no savepoint;
                or this is within a checkpoint.
        """
        if mode not in ("error", "overwrite"):
            msg = f'mode must be "error" or "overwrite", got {shown(mode)}; choose one'
            raise DeclarationValueError(msg)
        self._refuse_checkpoint()
        if not self.exists():
            return self
        if mode == "error":
            msg = f"{self.where}: nothing is there before it is written, got a directory"
            raise DeclarationValueError(f'{msg}; give another path, or mode="overwrite"')
        if not self.exists(MANIFEST):
            msg = f"{self.where}: only a savepoint is overwritten, got a directory that is none"
            raise DeclarationValueError(f"{msg}; give another path")
        # Written beside it: until the new savepoint is whole, the old one must stay.
        beside = self._beside("new")
        beside.delete()
        return beside

    def _beside(self, what: str) -> SavepointLocation:
        """Return the directory beside this one that has its name and an extension."""
        names = {each: f"{getattr(self, each)}.{what}" for each in ("address", "root", "uri")}
        return attrs.evolve(self, **names)

    def delete(self) -> None:
        """Delete the directory if it is there."""
        if self.exists():
            self.filesystem.delete_dir(self.root)

    def _refuse_checkpoint(self) -> None:
        parts = self.root.split("/")
        above = ["/".join(parts[:at]) for at in range(len(parts), 1, -1)]
        paths = [f"{each}/{log}" for each in above for log in ("offsets", "commits")]
        found = [
            info.type == fs.FileType.Directory for info in self.filesystem.get_file_info(paths)
        ]
        for at, each in enumerate(above):
            if all(found[2 * at : 2 * at + 2]):
                msg = f"{self.where}: a savepoint is not written into a checkpoint, got a path in "
                raise DeclarationValueError(f"{msg}{each!r}; give one outside of it")

    def replace(self, written: SavepointLocation) -> None:
        """Move a savepoint that was written beside this directory to its place."""
        if written.root == self.root:
            return
        # Two renames, since deleting takes long: a break in between leaves both of them whole, and
        # whoever opens this directory is told so.
        replaced = self._beside("replaced")
        replaced.delete()
        self.filesystem.move(self.root, replaced.root)
        self.filesystem.move(written.root, self.root)
        replaced.delete()


def savepoint_location_of(path: str | os.PathLike[str]) -> SavepointLocation:
    """Return the directory that a path or an address leads to.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is neither.
    """
    try:
        address = os.fspath(path)
    except TypeError:
        address = b""  # type: ignore[assignment]
    if not isinstance(address, str) or not address:
        msg = f"a savepoint is at a path or an address, got {shown(path)}; give a str"
        raise DeclarationTypeError(msg)
    try:
        if ":" not in address:
            # Made absolute here, since Java may have another working directory than Python.
            path = os.path.abspath(address)
            return SavepointLocation(address, fs.LocalFileSystem(), path, path)
        plain = address.replace("file:/", "file:///") if address.startswith("file:/") else address
        filesystem, root = fs.FileSystem.from_uri(plain.replace("file://///", "file:///"))
        return SavepointLocation(address, filesystem, root.rstrip("/"), address.rstrip("/"))
    except (pa.ArrowException, ValueError, OSError) as error:
        msg = f"a savepoint is at a path or an address that Arrow knows, got {address!r}: {error}"
        raise DeclarationValueError(msg) from error


def damage_error(location: SavepointLocation, what: str) -> CorruptStateError:
    """Build the error for a file that differs from the manifest."""
    return CorruptStateError(f"{location.where}: {what}; take the savepoint again")


# Findings: its files against its manifest


def check_savepoint(saved: SavepointDirectory) -> tuple[list[Finding], Checked]:
    """Return all faults of a savepoint, and how much was looked at.

    Args:
        saved: The opened savepoint, whose manifest could be read.
    """
    found = list(_find_unnamed(saved))
    checked = Checked()
    for operator in saved.manifest.operators:
        for what, rows, schema in _parts(saved, operator, found):
            found += _of_rows(saved.location, what, rows, schema)
            checked += Checked(entries=rows.rows, files=len(rows.files))
    return found, checked


def _find_unnamed(saved: SavepointDirectory) -> Iterator[Finding]:
    """Find files that other tools would read with those of the savepoint."""
    location = saved.location
    for operator in saved.manifest.operators:
        states = [(name, operator.states[name]) for name in operator.states]
        for name, rows in [*states, (None, operator.timers)]:
            named = {each.path for each in rows.files}
            for path in location.files_in(folder_of(operator.uid, name)):
                if path not in named:
                    msg = (
                        f"{location.where}: Parquet files must be those of the manifest, got {path}"
                    )
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
            there = saved.rows  # the number of its rows is not known
        else:
            there += found
    if there != saved.rows:
        msg = f"{location.where}, {what}: the manifest counts {saved.rows} rows, got {there}"
        yield Finding("counts", msg)


def _of_file(location: SavepointLocation, saved: SavedFile, schema: pa.Schema) -> Finding | int:
    """Return what is wrong with a file, or how many rows it has."""
    where = f"{location.where}, file {saved.path}"
    try:
        misfit = location.misfit(saved)
        if misfit is not None:
            return Finding("file", f"{location.where}: {misfit}")
        table = pq.read_table(
            location.path(saved.path),
            filesystem=location.filesystem,
            schema=schema,
            page_checksum_verification=True,
            partitioning=None,
        )
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        return Finding("file", f"{where}: it must hold the rows that were written, got {error}")
    return int(table.num_rows)
