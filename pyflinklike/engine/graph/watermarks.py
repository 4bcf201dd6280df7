# SPDX-License-Identifier: Apache-2.0
"""The event time of elements, and how far it has come: PyFlink's `WatermarkStrategy`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

import attrs

from pyflinklike.engine.clock import DurationLike, to_milliseconds
from pyflinklike.engine.foreign_names import WithoutJava
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError

__all__ = ["TimestampAssigner", "WatermarkKind", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Returns the event time of an element, as PyFlink's `TimestampAssigner`."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        """Return the event time of an element.

        Args:
            value: The element.
            record_timestamp: The time that the element has already, in ms; None where it has none
                (PyFlink gives the least number of 64 bits).

        Returns:
            The time in ms since the epoch.
        """


class WatermarkKind(Enum):
    """The ways in which watermarks follow the times of elements."""

    NONE = "no watermarks"
    BOUNDED = "bounded out of orderness"


@attrs.define
class WatermarkStrategy(WithoutJava):
    """The source of event times, and the rule for watermarks, as PyFlink's.

    A watermark of `t` says that no element of time `t` or before is to come.

    Args:
        kind: The rule for watermarks before the end of the input.
        delay: How far elements may lie behind the greatest time seen, in ms; the watermark is that
            time less the delay and less 1 ms.
        assigner: Returns the time of elements; None leaves them the time that they have.
        idleness: The time without an element after which an input is left out of minima, in ms;
            None for never.
    """

    kind: WatermarkKind = WatermarkKind.NONE
    delay: int = 0
    assigner: TimestampAssigner | None = None
    idleness: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Make a strategy for times that never go back: the greatest time seen less 1 ms."""
        return WatermarkStrategy(WatermarkKind.BOUNDED)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: DurationLike) -> WatermarkStrategy:
        """Make a strategy for late elements: the greatest time seen less this, less 1 ms.

        Args:
            max_out_of_orderness: A `Duration`, `Time`, `timedelta` or an int of ms.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is none of these, or negative.
        """
        delay = to_milliseconds(max_out_of_orderness, "max_out_of_orderness")
        if delay < 0:
            msg = f"max_out_of_orderness is never negative, got {delay} ms; give 0 or more"
            raise DeclarationValueError(msg)
        return WatermarkStrategy(WatermarkKind.BOUNDED, delay)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Make a strategy without a watermark until the end of the input."""
        return WatermarkStrategy()

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Set how the event time of elements is found; this strategy itself changes, as PyFlink's.

        Args:
            timestamp_assigner: Returns the event time of an element.

        Raises:
            DeclarationTypeError: It is no `TimestampAssigner`.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            remedy = instance_of(
                TimestampAssigner, timestamp_assigner, "subclass it, with extract_timestamp"
            )
            msg = f"it takes a TimestampAssigner, got {shown(timestamp_assigner)}; {remedy}"
            raise DeclarationTypeError(msg)
        self.assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy:
        """Return a strategy that leaves an input out of minima while it yields nothing.

        Its timestamp assigner stays; PyFlink's loses it.

        Args:
            idle_timeout: A `Duration`, `Time`, `timedelta` or an int of ms.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is none of these, or not above 0.
        """
        idleness = to_milliseconds(idle_timeout, "idle_timeout")
        if idleness <= 0:
            msg = f"idle_timeout must be greater than zero, got {idleness} ms; give 1 or more"
            raise DeclarationValueError(msg)
        return attrs.evolve(self, idleness=idleness)

    def with_watermark_alignment(
        self,
        watermark_group: str,  # noqa: ARG002  accepted for the sake of scripts
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,  # noqa: ARG002
    ) -> WatermarkStrategy:
        """Return the same strategy: no host here lets one source run ahead of another one.

        Raises:
            DeclarationTypeError: The drift is no length of time.
        """
        to_milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        return attrs.evolve(self)

    def watermark_after(self, greatest: int) -> int | None:
        """Return the watermark, in ms, once the greatest event time seen is this; None for none."""
        return None if self.kind is WatermarkKind.NONE else greatest - self.delay - 1
