# SPDX-License-Identifier: Apache-2.0
"""Descriptors: how a function declares the store it wants.

Opened with `runtime_context.get_store(descriptor)`.  Descriptors are values: they
compare and pickle as such, and check themselves when they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.stores.checks import (
    checked_bool,
    checked_config,
    checked_history,
    checked_max_entries,
    checked_name,
    checked_retention,
    checked_scope,
    checked_segments,
    checked_stream_time,
    checked_type,
    checked_window_size,
    milliseconds,
)
from pyflinklike.stores.tag import ChangelogTag
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "ExpiringStoreDescriptor",
    "KeyValueStoreDescriptor",
    "LruStoreDescriptor",
    "SessionStoreDescriptor",
    "StoreDescriptor",
    "TimestampedStoreDescriptor",
    "VersionedStoreDescriptor",
    "WindowStoreDescriptor",
]

_DAY = 86_400_000
_SHORTEST_SEGMENT = 60_000


def _option(**arguments: Any) -> Any:
    return attrs.field(kw_only=True, **arguments)


@attrs.frozen
class StoreDescriptor:
    """Name and types of a store, and what all kinds of store can be told.

    Args:
        name: Unique within the function; 1 to 249 of `A-Z a-z 0-9 . _ -`.
        key_type: Of the store's keys; a type with an order.
        value_type: Of its values.
        caching: Whether of several changes of an entry within a micro-batch only the last
            one is logged.
        changelog: Whether changes are sent to `changelog_tag`.  The store is durable
            either way.
        changelog_config: Settings of the topic that the changelog is meant for, over Kafka
            Streams' defaults; read again from `store.changelog_config`.
        scope: "key": each current key has a store of its own.  "partition": all keys of
            a key group share one.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument does not do.
    """

    name: str = attrs.field(validator=checked_name)
    key_type: TypeInformation = attrs.field(validator=checked_type)
    value_type: TypeInformation = attrs.field(validator=checked_type)
    caching: bool = _option(default=True, validator=checked_bool)
    changelog: bool = _option(default=True, validator=checked_bool)
    changelog_config: Mapping[str, Any] | None = _option(
        default=None, validator=checked_config, hash=False
    )
    scope: str = _option(default="key", validator=checked_scope)

    @property
    def changelog_tag(self) -> OutputTag:
        """The side output of the store's changes, which are `ChangelogRecord`s."""
        return ChangelogTag(
            f"{self.name}-changelog",
            key_fields=self._key_fields(),
            value_type=self.value_type,
            has_current_key=self.scope == "key",
        )

    def topic_config(self) -> dict[str, str]:
        """Kafka Streams' settings of the changelog topic, and over them those declared."""
        declared = {key: str(value) for key, value in (self.changelog_config or {}).items()}
        return {**self._topic_defaults(), **declared}

    def spec(self) -> TableSpec:
        """What the backend and the changelog of the key group need to know."""
        return TableSpec(
            self.name,
            Shape.MAP,
            self._kind(),
            value_type=self.value_type,
            user_key_type=Types.PRIMITIVE_ARRAY(Types.BYTE()),
            paired=self._is_paired,
            ordered=True,
            per_group=self.scope == "partition",
            nullable=self._is_nullable,
        )

    _is_paired: ClassVar[bool] = False
    _is_nullable: ClassVar[bool] = False
    noun: ClassVar[str]

    def _kind(self) -> str:
        """What must stay as it was, from run to run, besides the type of the values."""
        return f"{self.noun} store by {self.key_type.signature}, scope {self.scope}"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        return (("key", self.key_type),)

    def _topic_defaults(self) -> dict[str, str]:
        return {"cleanup.policy": "compact"}


@attrs.frozen
class KeyValueStoreDescriptor(StoreDescriptor):
    """Declares a `KeyValueStore`."""

    noun = "key-value"


@attrs.frozen
class TimestampedStoreDescriptor(StoreDescriptor):
    """Declares a `TimestampedStore`."""

    noun = "timestamped"
    _is_paired = True


@attrs.frozen
class LruStoreDescriptor(StoreDescriptor):
    """Declares an `LruKeyValueStore`.

    Args:
        max_entries: How many entries it keeps, under each key or in the key group.
    """

    noun = "lru"
    _is_paired = True

    max_entries: int = _option(validator=checked_max_entries)


def _default_stream_time(descriptor: Any) -> None:
    if descriptor.stream_time is None:
        object.__setattr__(descriptor, "stream_time", descriptor.scope)


def _stream_time() -> Any:
    return _option(default=None, validator=checked_stream_time)


@attrs.frozen
class ExpiringStoreDescriptor(StoreDescriptor):
    """What window and session stores can be told besides."""

    retention: int = _option(
        default=_DAY, converter=milliseconds("retention"), validator=checked_retention
    )
    segments: int = _option(default=2, validator=checked_segments)
    stream_time: str = _stream_time()

    def __attrs_post_init__(self) -> None:
        """Default the stream time."""
        _default_stream_time(self)

    @property
    def segment_width(self) -> int:
        """Length of a segment in ms."""
        return max(self.retention // (self.segments - 1), _SHORTEST_SEGMENT)

    def _topic_defaults(self) -> dict[str, str]:
        return {"cleanup.policy": "compact,delete", "retention.ms": str(self.retention + _DAY)}


@attrs.frozen
class WindowStoreDescriptor(ExpiringStoreDescriptor):
    """Declares a `WindowStore`.

    Args:
        window_size: Length of a window: a timedelta, or an int of ms.
        retention: How long windows are kept after their start, in stream time.
        segments: Windows that are still kept lie in about so many stretches of time,
            which are dropped as a whole; one lasts `retention / (segments - 1)`, at least a minute.
        retain_duplicates: Whether a key may have several values in one window.
        stream_time: By whose progress windows expire: "key", "partition" (the key group)
            or "watermark"; that of the scope where not given.
    """

    noun = "window"

    retain_duplicates: bool = _option(default=False, validator=checked_bool)
    window_size: int = _option(converter=milliseconds("window_size"), validator=checked_window_size)

    def _kind(self) -> str:
        values = "several values" if self.retain_duplicates else "one value"
        return f"{super()._kind()}, {values} per window of {self.window_size} ms"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        number = (("number", Types.LONG()),) if self.retain_duplicates else ()
        return (("key", self.key_type), ("window_start", Types.LONG()), *number)


@attrs.frozen
class SessionStoreDescriptor(ExpiringStoreDescriptor):
    """Declares a `SessionStore`.

    Args:
        retention: How long sessions are kept after their end, in stream time; at least the
            gap and the grace together.
        segments: As of a `WindowStoreDescriptor`.
        stream_time: Likewise.
    """

    noun = "session"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        return (("key", self.key_type), ("start", Types.LONG()), ("end", Types.LONG()))


@attrs.frozen
class VersionedStoreDescriptor(StoreDescriptor):
    """Declares a `VersionedStore`; caching makes no difference to it.

    Args:
        history_retention: How far back the past can be asked for and changed, in stream
            time: a timedelta, or an int of ms.
        stream_time: As of a `WindowStoreDescriptor`.
    """

    noun = "versioned"
    _is_nullable = True

    history_retention: int = _option(
        converter=milliseconds("history_retention"), validator=checked_history
    )
    stream_time: str = _stream_time()

    def __attrs_post_init__(self) -> None:
        """Default the stream time."""
        _default_stream_time(self)

    def _topic_defaults(self) -> dict[str, str]:
        lag = self.history_retention + _DAY
        return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag)}
