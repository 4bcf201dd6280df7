# SPDX-License-Identifier: Apache-2.0
"""Checks and conversions of the declaration of a TTL, for attrs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any

import attrs

from pyflinklike.checks import is_int
from pyflinklike.clock import Duration, DurationLike, Time, to_milliseconds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown

__all__ = ["at_least", "member_of", "of_kind", "to_compaction_period", "to_ttl"]


def of_kind(kind: type, remedy: str) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be an instance of `kind`."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind):
            name = attribute.name.lstrip("_")
            msg = f"{name} must be a {kind.__qualname__}, got {shown(value)}; {remedy}"
            raise DeclarationTypeError(msg)

    return check


def member_of(kind: type[Enum]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be a member of the enum."""
    return of_kind(kind, f"give one of {', '.join(str(member) for member in kind)}")


def at_least(minimum: int) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be an int of at least `minimum`."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        msg = (
            f"{attribute.name.lstrip('_')} must be an int of at least {minimum}, "
            f"got {shown(value)}; it counts state entries"
        )
        if not is_int(value):
            raise DeclarationTypeError(msg)
        if value < minimum:
            raise DeclarationValueError(msg)

    return check


def to_ttl(ttl: DurationLike | None) -> Time:
    """Return the TTL as a `Time` of whole ms, at least one."""
    if ttl is None:
        msg = (
            "a TTL is required, got None; write for example StateTtlConfig(ttl=timedelta(hours=1))"
        )
        raise DeclarationTypeError(msg)
    milliseconds = to_milliseconds(ttl, "a TTL")
    if milliseconds < 1:
        msg = f"a TTL must be at least 1 ms, got {shown(ttl)}; StateTtlConfig.DISABLED switches TTL off"
        raise DeclarationValueError(msg)
    return Time(milliseconds)


def to_compaction_period(period: DurationLike | None) -> Duration:
    """Return the period as a `Duration`; None is Flink's default, zero stays zero."""
    if period is None:
        return Duration.of_days(30)
    if to_milliseconds(period, "periodic_compaction_time") < 0:
        msg = (
            f"periodic_compaction_time must not be negative, got {shown(period)}; "
            f"Duration.of_millis(0) switches it off"
        )
        raise DeclarationValueError(msg)
    if isinstance(period, Duration):
        return period
    if isinstance(period, timedelta):
        # Through microseconds: rounded down to ms, a period of 0.5 ms would be 0 and switch it off.
        return Duration.of_nanos(period // timedelta(microseconds=1) * 1_000)
    return Duration.of_millis(to_milliseconds(period))
