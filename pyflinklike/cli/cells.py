# SPDX-License-Identifier: Apache-2.0
"""Writes values as JSON and as text, and rows as files: Parquet, JSON lines and CSV.

Times are ISO 8601 in UTC.  Every value in a CSV file is text.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table; an instant beyond Python's datetimes is None."""
    for batch in table.to_batches(max_chunksize=4096):
        columns = {name: _values(batch.column(name)) for name in batch.schema.names}
        for at in range(batch.num_rows):
            yield {name: values[at] for name, values in columns.items()}


def _values(column: Any) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    found = [None if each is None else _instant(each) for each in _micros(column)]
    return found if column.type.tz else [each and each.replace(tzinfo=None) for each in found]


def _micros(column: Any) -> list[int | None]:
    times: list[int | None] = (
        column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    )
    return times


def _instant(microseconds: int) -> dt.datetime | None:
    try:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def iso(milliseconds: int) -> str | None:
    """Return a time in ms as ISO 8601 in UTC, or None if Python's datetimes do not reach it."""
    instant = _instant(milliseconds * 1000)
    return None if instant is None else _iso(instant)


_UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}


def length(milliseconds: int) -> str:
    """Return a length of time as a whole number of the largest unit that fits, such as "7 days"."""
    for unit, size in _UNITS.items():
        if milliseconds and milliseconds % size == 0:
            number = milliseconds // size
            return f"{number:,} {unit}{'' if number == 1 else 's'}"
    return f"{milliseconds:,} ms"


def _iso(instant: dt.datetime) -> str:
    text = instant.isoformat(
        timespec="microseconds" if instant.microsecond % 1000 else "milliseconds"
    )
    return text.replace("+00:00", "Z")


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as an object of JSON, in which each point in time is also in ms, as `..._ms`."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[name] = _plain(value)
        if isinstance(value, dt.datetime) and value.tzinfo:
            found[f"{name}_ms"] = (value - _EPOCH) // _MILLISECOND
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return _iso(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (dt.date, dt.time, Decimal)):
        return str(value)
    return value


def as_cell(value: Any) -> str | None:
    """Return a value as the text of a CSV cell; None stays None."""
    if value is None:
        return None
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def as_text(value: Any) -> str:
    """Return a value as one line of printable text: no escape sequence reaches the terminal."""
    text = as_cell(value) or ""
    return text if text.isprintable() else json.dumps(text)[1:-1]


# Files

FORMATS = ("parquet", "csv", "jsonl")


def lines_of(batch: pa.RecordBatch) -> list[str]:
    """Write rows as objects of JSON, one text for each."""
    rows = rows_of(pa.Table.from_batches([batch]))
    return [json.dumps(as_json(row), ensure_ascii=False) for row in rows]


def cells_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose values are texts or null."""
    rows = [*rows_of(pa.Table.from_batches([batch]))]
    names = batch.schema.names
    cells = [pa.array([as_cell(row[name]) for row in rows], pa.string()) for name in names]
    return pa.RecordBatch.from_arrays(cells, names)


def write_dataset(dataset: Any, folder: str, kind: str) -> None:
    """Write the rows of a dataset as one file.

    Args:
        dataset: A dataset of `pyarrow.dataset`, read one batch at a time.
        folder: Path or address of the folder to make for the file.
        kind: The file format, one of `FORMATS`.
    """
    location = savepoint_location_of(folder)
    location.filesystem.create_dir(location.root)
    _WRITE[kind](location, dataset)


def _parquet(location: Any, dataset: Any) -> None:
    path = location.path("part-0.parquet")
    with pq.ParquetWriter(path, dataset.schema, filesystem=location.filesystem) as writer:
        for batch in dataset.to_batches():
            writer.write_batch(batch)


def _jsonl(location: Any, dataset: Any) -> None:
    with location.filesystem.open_output_stream(location.path("part-0.jsonl")) as file:
        for line in _every_line(dataset):
            file.write(f"{line}\n".encode())


def _every_line(dataset: Any) -> Iterator[str]:
    for batch in dataset.to_batches():
        yield from lines_of(batch)


def _csv(location: Any, dataset: Any) -> None:
    schema = pa.schema([pa.field(name, pa.string()) for name in dataset.schema.names])
    # The writer quotes texts but not nulls, so an empty text differs from null.
    with (
        location.filesystem.open_output_stream(location.path("part-0.csv")) as file,
        csv.CSVWriter(file, schema) as writer,
    ):
        for batch in dataset.to_batches():
            writer.write_batch(cells_of(batch))


_WRITE = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}
