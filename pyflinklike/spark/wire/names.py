# SPDX-License-Identifier: Apache-2.0
"""Names of the columns that the runtime adds, and the quoting of any name for Spark."""

from __future__ import annotations

__all__ = [
    "ARRIVAL",
    "BATCH_TIME",
    "BEFORE_WATERMARK",
    "INPUT",
    "INPUTS",
    "KEY_GROUP",
    "OUTPUT_TAG",
    "PHASE_MARK",
    "quoted",
]

KEY_GROUP = "__key_group"
"""The key group of a record or of packed records."""

BATCH_TIME = "__batch_time"
"""The time in ms at which the micro-batch or batch began."""

BEFORE_WATERMARK = "__before_watermark"
"""Whether an operator emitted a record before the watermark of the micro-batch passed on."""

ARRIVAL = "__arrival"
"""The position of a record among the records of its task, in a batch."""

INPUT = "__input"
"""The number of a record's input, from 1, if an operator has several inputs."""

INPUTS = ("__input_1", "__input_2")
"""The columns that hold a record as a struct: the column of its input; the other one is null."""

OUTPUT_TAG = "output_tag"
"""The id of the side output of a row; null if the row belongs to the main output."""


PHASE_MARK = "pyflinklike.beforeWatermark"
"""The metadata of the column that says which records came before the watermark."""


def quoted(name: str) -> str:
    """Quote a column's name so that Spark parses any name."""
    return "`" + name.replace("`", "``") + "`"
