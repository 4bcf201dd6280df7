# SPDX-License-Identifier: Apache-2.0
"""One table of a log or snapshot, replayed as columns: its entries, or the changes of one commit.

The rule of replay is in `pyflinklike._changelog.entry_codec`.  This module applies it to Arrow
columns, without a Python object for each entry:

1. Each row gets a *code*: a number that is equal for rows of the same entry (`codes_of`).  Arrow
   can group rows by numbers and strings, but not by the structs, lists or maps that keys may
   consist of.
2. The *place* of a row is its number in the log.  The last row of an entry is the greatest place of
   its code (`last_of_each`).  A row whose key was cleared later gets null as its place.
3. The rows at these places are the entries, but for those that are deletes.

`replay` returns the entries at the end, and `replay_changes` the changes of one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.entry_codec import HAS_STAMPS, read_batch, schema_of
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import CLEAR, DELETE, PUT, Shape, TableSpec
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.catalog import type_of

_OWNER = ("key", "namespace")
_ENTRY = (*_OWNER, "user_key")
_WRITTEN = "must hold what a program writes"


@attrs.frozen
class StoredTable:
    """A table as its declaration in the log describes it, without its program.

    Args:
        declaration: The declaration in the log, whose signatures give all types.
    """

    declaration: Declaration
    spec: TableSpec = attrs.field(init=False, eq=False)
    key_type: TypeInformation = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Find the types of the signatures.

        Raises:
            IncompatibleStateError: A signature is not one of `Types`.
        """
        said = self.declaration
        spec = TableSpec(
            said.name,
            Shape(said.shape),
            said.kind,
            type_of(said.value) if said.value else None,
            type_of(said.user_key) if said.user_key else None,
            per_group=said.per_group,
            namespace_type=type_of(said.namespace) if said.namespace else None,
        )
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "key_type", type_of(said.key) if said.key else Types.LONG())

    @property
    def schema(self) -> pa.Schema:
        """The columns of entries: key, namespace, user_key and value if the table has them; stamp."""
        return schema_of(self.spec, self.key_type, HAS_STAMPS)

    def read(self, sections: Iterable[Section], where: str) -> pa.Table:
        """Read all rows of sections of the table in order, with the `operation` of each.

        Values of a former type are cast to the present type.

        Raises:
            CorruptStateError: A section is damaged.
            IncompatibleStateError: A section was written under a declaration that cannot evolve
                into this one, or under a later one.
        """
        schema = self.schema.append(pa.field("operation", pa.int8()))
        batches = []
        for section in sections:
            self._check(section, where)
            batch = read_batch(section, self.spec, self.key_type, where)
            rows, columns = batch.num_rows, dict(zip(batch.schema.names, batch.columns))
            columns.setdefault("operation", pa.repeat(pa.scalar(PUT, pa.int8()), rows))
            if "stamp" in columns:
                with decoding(f"{section.where or where}, state {self.spec.name!r}", _WRITTEN):
                    _refuse_unstamped(columns["stamp"], columns["operation"])
            else:
                columns["stamp"] = pa.nulls(rows, pa.int64())
            arrays = [columns[name] for name in schema.names]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema).combine_chunks()

    def _check(self, section: Section, where: str) -> None:
        stored = section.declaration
        try:
            stored.check_types(self.declaration)
        except IncompatibleStateError:
            if not self.declaration.grows_into(stored):
                raise
            # Only a micro-batch with records writes the operator's record, but timers write state
            # in any.  So right after a change of type, the log may be ahead of the record.
            msg = (
                f"{where}, state {stored.name!r}: values must be of the type in the operator's "
                f"record, {self.declaration.value!r}, got the later type {stored.value!r}, written"
            )
            raise IncompatibleStateError(
                f"{msg} in a micro-batch of timers only; read it after the next one with records"
            ) from None


def _refuse_unstamped(stamps: Any, operations: Any) -> None:
    """Refuse an entry that was put without a stamp, in a section with stamps.

    Raises:
        ValueError: A put has a null as its stamp.
    """
    # Deletes and clears have no stamps either.
    if stamps.null_count and pc.any(pc.and_(stamps.is_null(), pc.equal(operations, PUT))).as_py():
        msg = "a stamp that is null"
        raise ValueError(msg)


def replay(table: StoredTable, sections: Iterable[Section], where: str) -> pa.Table:
    """Return the entries after these sections, in the columns of `StoredTable.schema`.

    The entries of a key are in the order in which a backend would give them back.

    Args:
        table: The table of the sections.
        sections: Sections from a snapshot on, or from the beginning of the log.
        where: Name of the key group, for messages.

    Raises:
        CorruptStateError: A section is damaged.
        IncompatibleStateError: A section was written under another declaration.
    """
    rows = table.read(sections, where)
    with decoding(f"{where}, state {table.declaration.name!r}", "must hold keys of its types"):
        alive = _alive_rows(rows)
        kept = rows.drop_columns(["operation"])
        # A snapshot without later writes is large, and every row of it is alive: spare the copy.
        return kept if len(alive) == rows.num_rows else kept.take(alive)


def _alive_rows(rows: pa.Table) -> Any:
    """Return the place of each entry's last row, in the order in which the entries were put."""
    codes, places, _ = _rows_that_count(rows)
    last = last_of_each(codes, places)
    operations = _whole(rows, "operation")
    is_put = pc.equal(operations, PUT)
    if pc.all(is_put).as_py():
        return last  # codes are numbered by the first row of each entry
    is_alive = is_put.take(last)
    alive = last.filter(is_alive)
    if len(last) == rows.num_rows:
        return alive
    # An entry that was overwritten keeps its place among the others, as in a dict; one that was
    # deleted and put again goes to the end.
    deletes = pc.if_else(pc.equal(operations, DELETE), places, pa.scalar(None, pa.int64()))
    deleted = last_of_each(codes, deletes).fill_null(-1).take(codes)
    since = pc.if_else(pc.greater(places, deleted), places, pa.scalar(None, pa.int64()))
    first = pc.negate(last_of_each(codes, pc.negate(since)))
    return alive.take(pc.sort_indices(first.filter(is_alive)))


def replay_changes(table: StoredTable, sections: Iterable[Section], where: str) -> pa.Table:
    """Return a row for each changed entry, behind one for its key if that was cleared.

    Args:
        table: The table of the sections.
        sections: The sections of one commit.
        where: Name of the key group, for messages.

    Returns:
        The columns of `StoredTable.schema` and `operation`.  Entries that were written before their
        key was cleared are left out.

    Raises:
        CorruptStateError: A section is damaged.
        IncompatibleStateError: A section was written under another declaration.
    """
    rows = table.read(sections, where)
    with decoding(f"{where}, state {table.declaration.name!r}", "must hold keys of its types"):
        codes, places, clears = _rows_that_count(rows)
        last = last_of_each(codes, places).drop_null()
        order = pc.sort_indices(pa.chunked_array([clears, last]))
        return rows.take(pa.chunked_array([clears, last]).take(order))


def _rows_that_count(rows: pa.Table) -> tuple[Any, Any, Any]:
    """Return the entry code of each row, the place of each row, and the places of last clears.

    The place of a row is null if the row clears its key, or its key was cleared later.
    """
    codes, places = entry_codes(rows), numbers(rows.num_rows)
    is_clear = pc.equal(_whole(rows, "operation"), CLEAR)
    if not pc.any(is_clear).as_py():
        return codes, places, places.slice(0, 0)
    owners = owner_codes(rows)
    cleared = last_of_each(owners, pc.if_else(is_clear, places, pa.scalar(-1, pa.int64())))
    counts = pc.greater(places, cleared.take(owners))
    clears = cleared.filter(pc.greater_equal(cleared, 0))
    return codes, pc.if_else(counts, places, pa.scalar(None, pa.int64())), clears


def owner_codes(rows: pa.Table) -> Any:
    """Return numbers of rows, equal if the entries have one owner: key, or key and namespace."""
    return _codes_by(rows, _OWNER)


def entry_codes(rows: pa.Table) -> Any:
    """Return numbers of rows, equal if the rows are of one entry."""
    return _codes_by(rows, _ENTRY)


def _codes_by(rows: pa.Table, names: tuple[str, ...]) -> Any:
    present = [_whole(rows, name) for name in names if name in rows.schema.names]
    return codes_of(present, rows.num_rows)


def _whole(rows: pa.Table, name: str) -> Any:
    column = rows.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


# Numbers for rows


_ROW = "row"


def codes_of(columns: Sequence[Any], rows: int) -> Any:
    """Return a number for each row: equal if all columns are, from 0 on by first occurrence.

    Args:
        columns: Arrow arrays of any type, nulls included.  If there are none, all rows are equal.
        rows: Number of rows in each column.
    """
    if not columns:
        return pa.repeat(pa.scalar(0, pa.int64()), rows)
    first, *others = columns
    codes = _codes(first)
    for column in others:
        mine = _codes(column)
        width = pa.scalar((pc.max(mine).as_py() or 0) + 1, pa.int64())
        # Number the codes anew after each column, so that the product fits into 64 bits.
        codes = _dictionary(pc.add(pc.multiply(codes, width), mine))
    return codes


def _codes(column: Any) -> Any:
    kind = column.type
    if pa.types.is_struct(kind):
        return codes_of([column.is_valid(), *column.flatten()], len(column))
    if pa.types.is_nested(kind):
        # One object for each row: lists and maps are rare as keys.
        known: dict[Any, int] = {}
        texts = map(repr, column.to_pylist())
        return pa.array([known.setdefault(text, len(known)) for text in texts], pa.int64())
    return _dictionary(column)


def _dictionary(column: Any) -> Any:
    return column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def numbers(rows: int) -> Any:
    """Return the numbers from 0 to below `rows`."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=-1)


def last_of_each(codes: Any, places: Any) -> Any:
    """Return the greatest place of each code, in the order of the codes.

    Args:
        codes: Codes as `codes_of` returns them: every number from 0 on occurs.
        places: A number for each row, or null for a row that does not count.
    """
    if not len(codes):
        return places
    # All rows differ, so each is the last of its code.
    if (pc.max(codes).as_py() or 0) + 1 == len(codes):
        return places
    table = pa.table({"code": codes, _ROW: places})
    # In one thread, Arrow orders groups by first occurrence, which is the order of the codes.
    found = table.group_by("code", use_threads=False).aggregate([(_ROW, "max")])
    return found.column(f"{_ROW}_max").combine_chunks()


def sort_rows(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows in the order of these columns."""
    # Do not use `Table.sort_by`: Arrow's threads release the rows a little later.  If the rows are
    # in Python's memory and Python ends just then, the process aborts.
    order = [(name, "ascending") for name in names]
    return table.take(pc.sort_indices(table, order)) if order else table
