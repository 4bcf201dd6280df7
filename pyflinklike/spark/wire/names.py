# SPDX-License-Identifier: Apache-2.0
"""Names of columns: the runtime's own, and how Spark parses any."""

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
"""When the micro-batch or batch began, in ms."""

BEFORE_WATERMARK = "__before_watermark"
"""Whether an operator emitted a record before the watermark of the micro-batch passed on."""

ARRIVAL = "__arrival"
"""The place of a batch's record among those of its task."""

INPUT = "__input"
"""The number of the input that a record of several is of, from 1."""

INPUTS = ("__input_1", "__input_2")
"""The record as a struct, in the column of its input; the other column is null."""

OUTPUT_TAG = "output_tag"
"""The id of the side output that a row of the result is of; null where it is of the main one."""


PHASE_MARK = "pyflinklike.beforeWatermark"
"""In the metadata of a column: it says which records came before the watermark."""


def quoted(name: str) -> str:
    """A column's name as Spark parses it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
