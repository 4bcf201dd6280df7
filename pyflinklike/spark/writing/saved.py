# SPDX-License-Identifier: Apache-2.0
"""The files of a savepoint as DataFrames."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyflinklike.replay.group import TimersReader
from pyflinklike.savepoints.directory import SavepointDirectory
from pyflinklike.spark.reading.saved import frame_of_files
from pyflinklike.spark.writing.saving import Frames

__all__ = ["saved_frames"]


def saved_frames(spark: SparkSession, directory: SavepointDirectory, uid: str | None) -> Frames:
    """Read an operator of a savepoint as DataFrames.

    Args:
        spark: Any session that reaches the directory.
        directory: The savepoint.
        uid: The uid of the operator; None for the only operator.

    Raises:
        UnknownStateError: There is no such operator.
        CorruptStateError: A file is missing, or is not the one that was saved.
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
