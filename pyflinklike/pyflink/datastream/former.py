# SPDX-License-Identifier: Apache-2.0
"""Classes that Flink 1 had and Flink 2 has not: `common.pyflink_names` says where, and today's form.

They stand in a module of their own: a name that the module of a program's import has itself would
be found there, without the warning that says today's form.
"""

from __future__ import annotations

from enum import Enum

from pyflinklike.pyflink._graph.files import Encoder
from pyflinklike.pyflink.datastream.checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointCleanup", "SimpleStringEncoder", "TimeCharacteristic"]

ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""What happens to a checkpoint when its job is cancelled; only its name has changed."""


class TimeCharacteristic(Enum):
    """The time of windows and timers of a program, as up to Flink 1.11; later each says its own."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


class SimpleStringEncoder(Encoder):
    """The encoder of lines, as it was before `Encoder.simple_string_encoder`.

    Args:
        charset_name: The encoding of the text.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(charset_name)
