# SPDX-License-Identifier: Apache-2.0
"""A savepoint for its reader: states as datasets, without Spark and without the program."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.segments import Section, Segment
from pyflinklike.replay.described import StateInfo, StateInfos, described, state_of
from pyflinklike.replay.group import StateReader, TimersReader
from pyflinklike.replay.rows import StateRows
from pyflinklike.savepoints.files import Place, place_of
from pyflinklike.savepoints.manifest import Manifest, SavedOperator, SavedRows, folder_of
from pyflinklike.savepoints.stored_rows import sections_of_rows
from pyflinklike.savepoints.stored_timers import sections_of_timers

__all__ = ["SavepointDirectory", "open_savepoint", "write_log"]


@attrs.frozen
class SavepointDirectory:
    """An opened savepoint.

    Args:
        place: The directory that it is in.
        manifest: Its description of itself.
    """

    place: Place
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
            chosen = [self.manifest.operator(operator, self.place.where)]
        return StateInfos(
            attrs.evolve(
                info, entries=each.states[info.name].rows, bytes=_size(each.states[info.name])
            )
            for number, each in enumerate(chosen)
            for info in described(each.record, number)
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.place.where)}</p>{self.states()._repr_html_()}"

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
        found = self.manifest.operator(operator, self.place.where)
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
        found = self.manifest.operator(operator, self.place.where)
        return self._dataset(found.timers, TimersReader(found.record, None).schema)

    def rows_of(self, operator: SavedOperator, state: str) -> StateRows:
        """Return the description of a state's rows.

        Raises:
            UnknownStateError: There is no such state.
        """
        info = state_of(described(operator.record, 0), state, self.place.where)
        return StateRows.of(operator.record, info, saved=True)

    def _dataset(self, saved: SavedRows, schema: pa.Schema) -> Any:
        from pyarrow import dataset  # it imports pandas where that is installed

        if not saved.files:
            return dataset.dataset(pa.table([[] for _ in schema], schema=schema))
        # A page may be damaged and still be decoded, and an old file may have fewer rows.
        self.place.verify(saved.files)
        paths = [self.place.path(each.path) for each in saved.files]
        return dataset.dataset(
            paths, schema=schema, format="parquet", filesystem=self.place.filesystem
        )

    def verify(self) -> None:
        """Compare every file with its checksum in the manifest.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        self.place.verify(
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
        found = self.manifest.operator(operator, self.place.where)
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
    place = place_of(path)
    return SavepointDirectory(place, place.manifest())


def write_log(
    place: Place, record: OperatorRecord, log: list[Segment], library: str, taken_at: int
) -> None:
    """Write all state of one key group, such as a harness has, as a savepoint.

    Args:
        place: An empty directory, or one that does not exist yet.
        record: Record of the operator.
        log: Log of the key group.
        library: Version of pyflinklike.
        taken_at: Time of now, in ms.
    """
    states = {info.name: _written(place, record, log, info) for info in described(record, 0)}
    reader, folder = TimersReader(record, None), folder_of(record.identity.name, None)
    timers = [each for each in reader.read(0, log, place.where) if each.num_rows]
    domains = {
        domain: sum(each.column("domain").to_pylist().count(domain) for each in timers)
        for domain in ("event_time", "processing_time")
    }
    operator = SavedOperator(record, states, _write(place, folder, timers), domains)
    # Last of all: a directory without a manifest is no savepoint.
    place.finish(Manifest(library, taken_at, (operator,)))


def _written(
    place: Place, record: OperatorRecord, log: list[Segment], info: StateInfo
) -> SavedRows:
    reader = StateReader(StateRows.of(record, info, saved=True), None)
    tables = [each for each in reader.read(0, log, place.where) if each.num_rows]
    return _write(place, folder_of(record.identity.name, info.name), tables)


def _write(place: Place, folder: str, tables: Iterable[pa.Table]) -> SavedRows:
    every = list(tables)
    if not every:
        return SavedRows(0)
    table = pa.concat_tables(every)
    place.filesystem.create_dir(place.path(folder))
    name = f"{folder}/part-0.parquet"
    pq.write_table(
        table,
        place.path(name),
        filesystem=place.filesystem,
        compression="zstd",
        write_page_checksum=True,
    )
    return SavedRows(table.num_rows, (place.saved_file(name),))
