# SPDX-License-Identifier: Apache-2.0
"""Classes that Flink 1 had and Flink 2 does not: `pyflinklike.pyflink._names` has their places in Flink 1.

They need this module of their own.  If the module that a program imports defined them, Python would find
them there, and `_names` could not warn.
"""

from __future__ import annotations

from enum import Enum

from pyflinklike.pyflink._graph.files import Encoder
from pyflinklike.pyflink.datastream.checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointCleanup", "SimpleStringEncoder", "TimeCharacteristic"]

ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""The fate of a checkpoint when its job is cancelled; Flink 2 has only renamed it."""


class TimeCharacteristic(Enum):
    """The time for windows and timers of a program up to Flink 1.11; later each of them names its own."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


class SimpleStringEncoder(Encoder):
    """Writes the text of each element as a line; Flink 2 has `Encoder.simple_string_encoder`.

    Args:
        charset_name: The encoding of the text.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(charset_name)
