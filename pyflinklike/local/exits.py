# SPDX-License-Identifier: Apache-2.0
"""Instances that carry out sinks."""

from __future__ import annotations

from collections import deque
from typing import Any

from pyflinklike.graph.sinks import SinkWriter
from pyflinklike.local.stations import Exit, Send, Station
from pyflinklike.types.copies import as_given

__all__ = ["CollectStation", "SinkStation", "nowhere"]


def _dropped(_: Any, __: int | None) -> None:
    """An element that nobody reads."""


def _ended(_: int) -> None:
    """A watermark that nobody reads."""


def nowhere() -> Exit:
    """The exit of an instance behind which nothing comes."""
    return Exit(_dropped, {}, _ended)


class SinkStation(Station):
    """Writes elements.

    Args:
        writer: Does it.
    """

    def __init__(self, writer: SinkWriter) -> None:
        super().__init__(nowhere())
        self.writer = writer

    def _element(self, position: int) -> Send:  # noqa: ARG002
        return self.writer.write


class CollectStation(Station):
    """Keeps elements for the program.

    Args:
        collected: Gets them.
    """

    def __init__(self, collected: deque[Any]) -> None:
        super().__init__(nowhere())
        self._collected = collected

    def _element(self, position: int) -> Send:  # noqa: ARG002
        append = self._collected.append
        return lambda value, _: append(as_given(value))
