# SPDX-License-Identifier: Apache-2.0
"""What `from_savepoint` takes, as rows for the start of a query."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, HostError
from pyflinklike.savepoints.directory import open_savepoint
from pyflinklike.shown import shown
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.hosts.initial import Initial
from pyflinklike.spark.savepoints import initial_rows
from pyflinklike.spark.setup.options import SavepointLike
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.writing.beginning import initial_frame, refuse_timers
from pyflinklike.spark.writing.held import HeldState
from pyflinklike.spark.writing.saved import saved_frames

__all__ = ["check_savepoint", "initial_state"]

Saved = Mapping[str, Mapping[str, Any]]


def initial_state(df: DataFrame, plan: Plan, savepoint: SavepointLike) -> tuple[Initial, Saved]:
    """What a stream begins with, and what its states were declared as; bytes do not tell that.

    Args:
        df: The stream.
        plan: Of the query.
        savepoint: With the state of this operator, or of one operator only.

    Raises:
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys do not
            have the key columns' types.
        StateValueError: A verb of a `Savepoint` has no answer for a value or key.
        UnknownStateError: It has several operators, and none of this name.
        HostError: It holds timers that the query could not fire; or it was not written, on
            PySpark 3.5.
    """
    if isinstance(savepoint, bytes):
        return initial_rows(df, plan, savepoint), {}
    if isinstance(savepoint, Mapping):
        assert isinstance(savepoint, HeldState)
        return _of_held(df, plan, savepoint)
    directory = open_savepoint(savepoint)
    uid = plan.task.name if plan.task.name in directory.operators() else None
    operator = directory.manifest.operator(uid, directory.place.where)
    refuse_timers(operator.domains, plan)
    if not HAS_TRANSFORM_WITH_STATE:
        # PySpark 3.5 has the state travel among the records, out of the driver.
        initial = initial_rows(df, plan, directory.segment(uid).to_bytes())
        return initial, operator.record.states
    frames = saved_frames(df.sparkSession, directory, uid)
    return initial_frame(df, plan, frames), operator.record.states


def _of_held(df: DataFrame, plan: Plan, savepoint: HeldState) -> tuple[Initial, Saved]:
    if not HAS_TRANSFORM_WITH_STATE:
        msg = "on PySpark 3.5 a stream begins with a savepoint that is written, got a Savepoint"
        raise HostError(f"{msg}; write() it, and pass its path")
    savepoint.check()
    uid = plan.task.name
    frames = savepoint.operators[uid] if uid in savepoint.operators else savepoint.only()
    counted = frames.timers.groupBy("domain").count().collect()
    refuse_timers({row["domain"]: row["count"] for row in counted}, plan)
    return initial_frame(df, plan, frames), frames.record.states


def check_savepoint(savepoint: Any, *, is_streaming: bool) -> None:
    """See that a query can begin with a savepoint.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is none, or the query is a batch.
    """
    if not isinstance(savepoint, (bytes, str, os.PathLike, HeldState)):
        msg = (
            "from_savepoint takes the directory or the bytes of a savepoint, or a Savepoint, got "
            f"{shown(savepoint)}; take_savepoint() and read_savepoint() give them"
        )
        raise DeclarationTypeError(msg)
    if not is_streaming:
        msg = (
            "a stream can begin with a savepoint, got one for a batch DataFrame; restore it in a "
            "KeyedProcessHarness, or stream the data with trigger(availableNow=True)"
        )
        raise DeclarationValueError(msg)
