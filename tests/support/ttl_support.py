# SPDX-License-Identifier: Apache-2.0
"""States with a TTL in all four corners, and the plainest way to write and to read each kind.

The TTL is 100 ms throughout, and background cleanup is off except where it is the subject.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from probe import Driver, Sum, drive

from pyflinklike import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)

Kind = Callable[[], Any]
"""Declares a state."""
Corner = tuple[Any, Any]
"""An update type and a visibility."""
UpdateType = StateTtlConfig.UpdateType
WRITE, READ_WRITE = UpdateType.OnCreateAndWrite, UpdateType.OnReadAndWrite
Visibility = StateTtlConfig.StateVisibility
NEVER, RELAXED = Visibility.NeverReturnExpired, Visibility.ReturnExpiredIfNotCleanedUp
CORNERS = list(product([WRITE, READ_WRITE], [NEVER, RELAXED]))
CORNER_IDS = [f"{update.name}-{visibility.name}" for update, visibility in CORNERS]
all_corners = pytest.mark.parametrize("corner", CORNERS, ids=CORNER_IDS)
both_visibilities = pytest.mark.parametrize("visibility", [NEVER, RELAXED], ids=lambda v: v.name)
both_update_types = pytest.mark.parametrize("update", [WRITE, READ_WRITE], ids=lambda u: u.name)


def value() -> ValueStateDescriptor:
    """Declares a value state."""
    return ValueStateDescriptor("s", Types.LONG())


def list_() -> ListStateDescriptor:
    """Declares a list state."""
    return ListStateDescriptor("s", Types.LONG())


def map_() -> MapStateDescriptor:
    """Declares a map state."""
    return MapStateDescriptor("s", Types.STRING(), Types.LONG())


def reducing() -> ReducingStateDescriptor:
    """Declares a reducing state that sums."""
    return ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG())


def aggregating() -> AggregatingStateDescriptor:
    """Declares an aggregating state that sums."""
    return AggregatingStateDescriptor("s", Sum(), Types.LONG())


def builder(corner: Corner = (WRITE, NEVER), ttl: int = 100) -> StateTtlConfig.Builder:
    """A builder of a TTL in one of the four corners."""
    update, visibility = corner
    return StateTtlConfig.new_builder(ttl).set_update_type(update).set_state_visibility(visibility)


def expiring(kind: Kind, config: StateTtlConfig | None = None, **options: Any) -> Driver:
    """A driver of a state with a TTL."""
    descriptor = kind()
    descriptor.enable_time_to_live(config or builder().disable_cleanup_in_background().build())
    return drive(descriptor, **options)


def quiet(kind: Kind, corner: Corner) -> Driver:
    """A driver of a state in one corner, without background cleanup."""
    return expiring(kind, builder(corner).disable_cleanup_in_background().build())


class Read(NamedTuple):
    """A way to read a state that holds 1."""

    kind: Callable[[], Any]
    write: tuple[Any, ...]
    read: tuple[Any, ...]
    seen: Any
    gone: Any


ADD = ("add", 1)
PLAIN_READ = {
    value: Read(value, ("update", 1), ("value",), 1, None),
    map_: Read(map_, ("put", "u", 1), ("get", "u"), 1, None),
    list_: Read(list_, ADD, ("get",), [1], []),
    reducing: Read(reducing, ADD, ("get",), 1, None),
    aggregating: Read(aggregating, ADD, ("get",), 1, None),
}
KINDS = pytest.mark.parametrize("kind", PLAIN_READ, ids=lambda kind: kind.__name__.strip("_"))


def call(state: Driver, operation: tuple[Any, ...]) -> Any:
    """Make one call of a state, in a record of its own."""
    return getattr(state, operation[0])(*operation[1:])


def holding_one(kind: Kind, corner: Corner) -> Driver:
    """A driver of a state that holds 1 since time 0."""
    state = quiet(kind, corner)
    call(state, PLAIN_READ[kind].write)
    return state
