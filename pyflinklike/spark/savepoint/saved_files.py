# SPDX-License-Identifier: Apache-2.0
"""The Parquet files of a savepoint, which executors write from DataFrames of state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike import __version__
from pyflinklike.clock import wall_clock
from pyflinklike.errors import HostError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.savepoints.files import Place
from pyflinklike.savepoints.manifest import Manifest, SavedOperator, SavedRows, folder_of
from pyflinklike.spark.wire.names import quoted

__all__ = ["Frames", "save"]

_ROWS_PER_FILE = 1_000_000
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@attrs.frozen
class Frames:
    """The record, states and timers of one operator.

    Args:
        record: The operator's record.
        states: The rows of each state by name, in the columns of a savepoint.
        timers: The timers in the columns of a savepoint.
    """

    record: OperatorRecord
    states: Mapping[str, DataFrame]
    timers: DataFrame


def save(place: Place, operators: list[Frames], manifest: Manifest, mode: str) -> None:
    """Write a savepoint.

    Args:
        place: The location to write to.
        operators: The operators of the savepoint.
        manifest: The manifest, which gets the operators, the version and the time.
        mode: "error", or "overwrite" to replace a savepoint that is there.

    Raises:
        DeclarationValueError: The mode does not allow replacing what is there.
        HostError: The driver does not find the rows that the executors wrote.
    """
    written = place.begin(mode)
    saved = tuple(_saved_operator(written, each) for each in operators)
    made = attrs.evolve(manifest, operators=saved, library=__version__, taken_at=wall_clock())
    written.finish(made)
    place.replace(written)


def _saved_operator(place: Place, frames: Frames) -> SavedOperator:
    uid, keys = frames.record.identity.name, KeyColumns.of(frames.record).names
    states = {
        name: _saved_rows(place, folder_of(uid, name), frame, keys)
        for name, frame in frames.states.items()
    }
    timers = _saved_rows(place, folder_of(uid, None), frames.timers, keys)
    domains = place.count_by(timers.files, "domain", ("event_time", "processing_time"))
    return SavedOperator(frames.record, states, timers, domains)


def _saved_rows(place: Place, folder: str, frame: DataFrame, keys: tuple[str, ...]) -> SavedRows:
    present = [F.col(quoted(name)) for name in keys if name in frame.columns]
    # Sort keys together, so that the statistics of a file tell whether it has a key.
    ordered = frame.sortWithinPartitions(F.col("key_group"), *present)
    address = _address(place, folder)
    written = Observation()
    with _timestamps_in_micros(frame.sparkSession):
        writer = ordered.observe(written, F.count(F.lit(1)).alias("rows")).write
        writer = writer.option("compression", "zstd")
        writer.option("maxRecordsPerFile", _ROWS_PER_FILE).parquet(address)
    names = place.files_in(folder)
    # Executors with disks of their own write files that the driver does not see: compare counts.
    rows = sum(map(place.rows_in, names))
    if rows != written.get["rows"]:
        msg = (
            f"{place.where}: executors and driver must reach the same files, got {rows} of "
            f"{written.get['rows']} rows that were written to {address!r}"
        )
        raise HostError(f"{msg}; give an address such as s3://... that names the file system")
    return SavedRows(rows, place.saved_files(names))


@contextmanager
def _timestamps_in_micros(spark: SparkSession) -> Iterator[None]:
    """Have Spark write timestamps in the form that all tools read."""
    # Only the session has this setting, a write has not.
    former = spark.conf.get(_TIMESTAMPS, None)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if former is None:
            spark.conf.unset(_TIMESTAMPS)
        else:
            spark.conf.set(_TIMESTAMPS, former)


def _address(place: Place, folder: str) -> str:
    return f"{place.location}/{folder}"
