# SPDX-License-Identifier: Apache-2.0
"""Findings in a savepoint: its files against its manifest."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike.errors import PyflinklikeError
from pyflinklike.replay.checking import Checked, Finding
from pyflinklike.replay.group import TimersReader
from pyflinklike.savepoints.directory import SavepointDirectory
from pyflinklike.savepoints.files import Place
from pyflinklike.savepoints.manifest import SavedFile, SavedOperator, SavedRows, folder_of

__all__ = ["check_savepoint"]


def check_savepoint(saved: SavepointDirectory) -> tuple[list[Finding], Checked]:
    """Return all faults of a savepoint, and how much was looked at.

    Args:
        saved: The opened savepoint, whose manifest could be read.
    """
    found = list(_unnamed(saved))
    checked = Checked()
    for operator in saved.manifest.operators:
        for what, rows, schema in _parts(saved, operator, found):
            found += _of_rows(saved.place, what, rows, schema)
            checked += Checked(entries=rows.rows, files=len(rows.files))
    return found, checked


def _unnamed(saved: SavepointDirectory) -> Iterator[Finding]:
    """Find files that other tools would read with those of the savepoint."""
    place = saved.place
    for operator in saved.manifest.operators:
        states = [(name, operator.states[name]) for name in operator.states]
        for name, rows in [*states, (None, operator.timers)]:
            named = {each.path for each in rows.files}
            for path in place.files_in(folder_of(operator.uid, name)):
                if path not in named:
                    msg = f"{place.where}: Parquet files must be those of the manifest, got {path}"
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


def _of_rows(place: Place, what: str, saved: SavedRows, schema: pa.Schema) -> Iterator[Finding]:
    there = 0
    for each in saved.files:
        found = _of_file(place, each, schema)
        if isinstance(found, Finding):
            yield found
            there = saved.rows  # the number of its rows is not known
        else:
            there += found
    if there != saved.rows:
        msg = f"{place.where}, {what}: the manifest counts {saved.rows} rows, got {there}"
        yield Finding("counts", msg)


def _of_file(place: Place, saved: SavedFile, schema: pa.Schema) -> Finding | int:
    """Return what is wrong with a file, or how many rows it has."""
    where = f"{place.where}, file {saved.path}"
    try:
        misfit = place.misfit(saved)
        if misfit is not None:
            return Finding("file", f"{place.where}: {misfit}")
        table = pq.read_table(
            place.path(saved.path),
            filesystem=place.filesystem,
            schema=schema,
            page_checksum_verification=True,
            partitioning=None,
        )
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        return Finding("file", f"{where}: it must hold the rows that were written, got {error}")
    return int(table.num_rows)
