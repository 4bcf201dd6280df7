# SPDX-License-Identifier: Apache-2.0
"""Rows as files of other formats: Parquet, JSON lines, and CSV, whose values are all texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from pyflinklike.cli.shapes import as_cell, as_json, rows_of
from pyflinklike.savepoints.files import place_of

__all__ = ["FORMATS", "cells_of", "lines_of", "write_dataset"]

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
        dataset: A dataset of `pyarrow.dataset`.
        folder: Path or address of the folder to make for the file.
        kind: One of `FORMATS`.
    """
    place = place_of(folder)
    place.filesystem.create_dir(place.root)
    _WRITE[kind](place, dataset)


def _parquet(place: Any, dataset: Any) -> None:
    path = place.path("part-0.parquet")
    with pq.ParquetWriter(path, dataset.schema, filesystem=place.filesystem) as writer:
        for batch in dataset.to_batches():
            writer.write_batch(batch)


def _jsonl(place: Any, dataset: Any) -> None:
    with place.filesystem.open_output_stream(place.path("part-0.jsonl")) as file:
        for line in _every_line(dataset):
            file.write(f"{line}\n".encode())


def _every_line(dataset: Any) -> Iterator[str]:
    for batch in dataset.to_batches():
        yield from lines_of(batch)


def _csv(place: Any, dataset: Any) -> None:
    schema = pa.schema([pa.field(name, pa.string()) for name in dataset.schema.names])
    # The writer quotes texts but not nulls, so an empty text differs from none.
    with (
        place.filesystem.open_output_stream(place.path("part-0.csv")) as file,
        csv.CSVWriter(file, schema) as writer,
    ):
        for batch in dataset.to_batches():
            writer.write_batch(cells_of(batch))


_WRITE = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}
