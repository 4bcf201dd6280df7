# SPDX-License-Identifier: Apache-2.0
"""A savepoint's files as DataFrames."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyflinklike.replay.group import TimersReader
from pyflinklike.savepoints.directory import SavepointDirectory
from pyflinklike.spark.reading.saved import frame_of_files
from pyflinklike.spark.writing.saving import Frames

__all__ = ["saved_frames"]


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
        name: frame_of_files(spark, directory, saved, directory.rows_of(operator, name).schema)
        for name, saved in operator.states.items()
    }
    timers = frame_of_files(
        spark, directory, operator.timers, TimersReader(operator.record, None).schema
    )
    return Frames(operator.record, states, timers)
