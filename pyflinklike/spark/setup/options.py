# SPDX-License-Identifier: Apache-2.0
"""What every operator over a keyed DataFrame can be told besides what it computes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import DataFrame

from pyflinklike.backends.base import StateBackend

__all__ = ["CommonOptions", "KeyedOptions", "OperatorOptions", "SavepointLike"]

SavepointLike = bytes | str | os.PathLike[str] | Mapping[str, DataFrame]
"""The bytes of a savepoint, its directory, or a `Savepoint`, which is a mapping."""


class CommonOptions(TypedDict, total=False):
    """The keyword arguments that operators pass on to `KeyedStream.process`, which explains them.

    Args:
        state_backend: Where working state is kept.
        max_parallelism: Number of key groups.
        uid: Names the operator.
        job_parameters: For `RuntimeContext.get_job_parameter`.
        from_savepoint: What a stream begins with.
        allow_pickle: Whether state may be unpickled.
    """

    state_backend: StateBackend | None
    max_parallelism: int | None
    uid: str | None
    job_parameters: Mapping[str, str] | None
    from_savepoint: SavepointLike | None
    allow_pickle: bool


class OperatorOptions(CommonOptions, total=False):
    """The same with event time, for operators that also run without it.

    Args:
        event_time: Name of a timestamp column.
    """

    event_time: str | None


class KeyedOptions(OperatorOptions, total=False):
    """Those of operators over one input.

    Args:
        before_watermark: Name of a boolean column: what came before the watermark.
        output_before_watermark: Name of such a column to add to the result.
        arrival_order: Whether records with an event time are processed as they arrived.
    """

    before_watermark: str | None
    output_before_watermark: str | None
    arrival_order: bool
