# SPDX-License-Identifier: Apache-2.0
"""State as data, Flink's State Processor API: read it, compare it, edit it and write it back.

A savepoint is a directory of Parquet files, which any tool reads without Spark or Java.  Functions
that read checkpoints or edit state run on Spark.

    savepoint = Savepoint.read(spark, "/checkpoints/visits")
    savepoint.filter_keys(F.col("user") != "bot").write("/savepoints/visits")
"""

from pyflinklike._exports import export_public, is_loading
from pyflinklike.state_processor._savepoints.savepoint_directory import (
    SavepointDirectory,
    is_savepoint,
    open_savepoint,
)
from pyflinklike.state_processor._savepoints.savepoint_writer import write_savepoint

__all__ = [
    "Savepoint",
    "SavepointDirectory",
    "StateView",
    "StateViews",
    "create_state_views",
    "diff_state",
    "is_savepoint",
    "list_states",
    "open_savepoint",
    "read_heads",
    "read_keyed_state",
    "read_savepoint",
    "read_segments",
    "read_state",
    "read_state_changes",
    "read_timers",
    "repartition_state",
    "take_savepoint",
    "write_savepoint",
]

if is_loading(globals()):
    from pyflinklike.spark._plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyflinklike.state_processor._checkpoints.savepoint_frames import take_savepoint
        from pyflinklike.state_processor._checkpoints.state_changes import read_state_changes
        from pyflinklike.state_processor._checkpoints.state_diff import diff_state
        from pyflinklike.state_processor._checkpoints.state_frames import (
            list_states,
            read_heads,
            read_keyed_state,
            read_segments,
            read_state,
            read_timers,
        )
        from pyflinklike.state_processor._checkpoints.state_views import (
            StateView,
            StateViews,
            create_state_views,
        )
        from pyflinklike.state_processor._spark.initial_state import read_savepoint
        from pyflinklike.state_processor._spark.repartition import repartition_state
        from pyflinklike.state_processor._spark.savepoint import Savepoint

export_public(globals())
