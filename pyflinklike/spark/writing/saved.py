# SPDX-License-Identifier: Apache-2.0
"""A savepoint's files as DataFrames."""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyflinklike.replay.group import TimersReader
from pyflinklike.savepoints.directory import SavepointDirectory
from pyflinklike.savepoints.manifest import SavedRows
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.writing.saving import Frames

__all__ = ["saved_frames"]

_OF_PATTERNS = re.compile(r"[][*?{}\\]")


def saved_frames(spark: SparkSession, directory: SavepointDirectory, uid: str | None) -> Frames:
    """An operator of a savepoint as DataFrames.

    Args:
        spark: Any session that reaches the directory.
        directory: The `SavepointDirectory`.
        uid: Of the operator; None for the only one there is.

    Raises:
        UnknownStateError: There is no such operator.
        CorruptStateError: A file is missing or another one.
    """
    operator = directory.manifest.operator(uid, directory.place.where)
    states = {
        name: _frame(spark, directory, saved, directory.rows_of(operator, name).schema)
        for name, saved in operator.states.items()
    }
    timers = _frame(spark, directory, operator.timers, TimersReader(operator.record, None).schema)
    return Frames(operator.record, states, timers)


def _frame(
    spark: SparkSession, directory: SavepointDirectory, saved: SavedRows, schema: pa.Schema
) -> DataFrame:
    typed = spark_schema(schema)
    if not saved.files:
        return spark.createDataFrame([], typed)
    place = directory.place
    place.verify(saved.files)
    paths = [_literal(f"{place.location}/{each.path}") for each in saved.files]
    return spark.read.schema(typed).parquet(*paths)


def _literal(path: str) -> str:
    """A path in which Spark finds no pattern."""
    return _OF_PATTERNS.sub(r"\\\g<0>", path)
