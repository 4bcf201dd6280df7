# SPDX-License-Identifier: Apache-2.0
"""The event time of elements, and the watermarks that follow it: PyFlink's `WatermarkStrategy`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.fold_functions import adopt


class TimestampAssigner(ABC):
    """Returns the event time of an element, as PyFlink's `TimestampAssigner`."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of an element.

        Args:
            value: The element, as the source or the operator before yields it.
            record_timestamp: The time in ms that the source or an assigner before this one gave the
                element; -9223372036854775808, the least int of 64 bits, if none did.

        Returns:
            The time in ms since the epoch, or that least int if the element has no time.
        """


class WatermarkKind(Enum):
    """The ways in which watermarks follow the times of elements."""

    NONE = "no watermarks"
    BOUNDED = "bounded out of orderness"


@attrs.frozen
class WatermarkAlignment:
    """How far a source may be ahead of others.

    Args:
        group: The name of the group of sources that are compared.
        drift: How far the watermark of a source may lie above the least watermark of the group, in ms.
    """

    group: str
    drift: int


def find_aligned_limits(
    sources: Iterable[tuple[WatermarkAlignment | None, int | None]],
) -> list[int | None]:
    """Return for each source the watermark above which it waits for others; None if it never waits.

    Args:
        sources: The alignment of each source, and its watermark in ms.  The watermark is None if
            no other source waits for this one: it has yielded no element yet, is idle, or has ended.
    """
    known = list(sources)
    least: dict[str, int] = {}
    for alignment, watermark in known:
        if alignment is not None and watermark is not None:
            least[alignment.group] = min(watermark, least.get(alignment.group, watermark))
    return [
        None if each is None or each.group not in least else least[each.group] + each.drift
        for each, _ in known
    ]


@attrs.define
class WatermarkStrategy(WithoutJava):
    """The rules for event times and watermarks, as PyFlink's.

    A watermark of `t` says that no element of time `t` or before is to come.

    Args:
        kind: The rule for watermarks before the end of the input.
        delay: How far elements may lie behind the greatest time seen, in ms; the watermark is that
            time less the delay and less 1 ms.
        assigner: Returns the time of elements; None leaves them the time that they have.
        idleness: The time without an element after which an input is left out of minima, in ms;
            None for never.
        alignment: How far the source may be ahead of others; None for any distance.

    Example:
        ```python
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        strategy = strategy.with_idleness(Duration.of_minutes(1))
        ```
    """

    kind: WatermarkKind = WatermarkKind.NONE
    delay: int = 0
    assigner: TimestampAssigner | None = None
    idleness: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Make a strategy for times that never go back: the greatest time seen less 1 ms."""
        return WatermarkStrategy(WatermarkKind.BOUNDED)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: DurationLike) -> WatermarkStrategy:
        """Make a strategy for elements out of order: the greatest time seen less a delay, less 1 ms.

        Args:
            max_out_of_orderness: The delay: a `Duration`, `Time`, `timedelta` or an int of ms.

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
            DeclarationTypeError: It has no `extract_timestamp`, or is a class.
        """
        assigner = adopt(timestamp_assigner, TimestampAssigner)
        if not isinstance(assigner, TimestampAssigner):
            remedy = instance_of(
                TimestampAssigner, assigner, "give an object that has extract_timestamp"
            )
            msg = f"it takes a TimestampAssigner, got {short_repr(assigner)}; {remedy}"
            raise DeclarationTypeError(msg)
        self.assigner = assigner
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
        watermark_group: str,
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,
    ) -> WatermarkStrategy:
        """Return a strategy whose source waits while it is too far ahead of others.

        It has an effect only if it is given to `from_source`.  On Spark a source waits from one micro-batch to
        another, if it is a `KafkaSource` (PySpark 4.2) or a `FileSource` with `monitor_continuously`;
        other sources do not wait.  Results do not depend on it, since the watermark of an operator is
        the least one of its inputs.  It only bounds how many elements an operator has to keep.

        Args:
            watermark_group: The name of the group of sources that wait for each other.
            max_allowed_watermark_drift: How far the watermark of the source may lie above the least one
                of the group: a `Duration`, `Time`, `timedelta` or an int of ms.
            update_interval: Has no effect: watermarks are compared after every micro-batch, and in this
                process after every element.

        Raises:
            DeclarationTypeError: The group is no text, or another argument is no length of time.
            DeclarationValueError: The drift is negative.
        """
        if not isinstance(watermark_group, str):
            msg = f"a group of sources has a name, got {short_repr(watermark_group)}; give for example 'orders'"
            raise DeclarationTypeError(msg)
        drift = to_milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        if drift < 0:
            msg = f"max_allowed_watermark_drift is never negative, got {drift} ms; give 0 or more"
            raise DeclarationValueError(msg)
        if update_interval is not None:
            to_milliseconds(update_interval, "update_interval")
        return attrs.evolve(self, alignment=WatermarkAlignment(watermark_group, drift))

    def watermark_after(self, greatest: int) -> int | None:
        """Return the watermark for the greatest event time seen, both in ms; None for no watermark."""
        # Less 1 ms: another element may still have the greatest time seen so far.
        return None if self.kind is WatermarkKind.NONE else greatest - self.delay - 1
