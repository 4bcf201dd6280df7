# SPDX-License-Identifier: Apache-2.0
"""Descriptors: how a function declares the store it wants.

Opened with `runtime_context.get_store(descriptor)`.  Descriptors are values: they
compare and pickle as such, and check themselves when they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.stores.checks import (
    checked_bool,
    checked_config,
    checked_name,
    checked_retention,
    checked_scope,
    checked_segments,
    checked_stream_time,
    checked_type,
    to_retention,
)
from pyflinklike.stores.records import ChangelogRecord
from pyflinklike.stores.tag import ChangelogTag
from pyflinklike.type_vars import K, V
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "DAY",
    "ExpiringStoreDescriptor",
    "StoreDescriptor",
    "default_stream_time",
]

DAY = 86_400_000
"""In ms; what a changelog keeps longer than its store, as Kafka Streams'."""
_SHORTEST_SEGMENT = 60_000


@attrs.frozen
class StoreDescriptor(Generic[K, V]):
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
    key_type: TypeInformation[K] = attrs.field(validator=checked_type)
    value_type: TypeInformation[V] = attrs.field(validator=checked_type)
    caching: bool = attrs.field(kw_only=True, default=True, validator=checked_bool)
    changelog: bool = attrs.field(kw_only=True, default=True, validator=checked_bool)
    changelog_config: Mapping[str, Any] | None = attrs.field(
        kw_only=True, default=None, validator=checked_config, hash=False
    )
    scope: str = attrs.field(kw_only=True, default="key", validator=checked_scope)

    @property
    def changelog_tag(self) -> OutputTag[ChangelogRecord]:
        """The side output of the store's changes, which are `ChangelogRecord`s."""
        return ChangelogTag(
            f"{self.name}-changelog",
            key_fields=self._key_fields(),
            value_type=self.value_type,
            has_current_key=self.scope == "key",
        )

    def new_store(self) -> Any:
        """The store, not yet opened; each kind of store says which."""
        raise NotImplementedError

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


def default_stream_time(descriptor: Any) -> None:
    """Let time pass as far as the scope reaches, where the descriptor does not say."""
    if descriptor.stream_time is None:
        object.__setattr__(descriptor, "stream_time", descriptor.scope)


@attrs.frozen
class ExpiringStoreDescriptor(StoreDescriptor[K, V]):
    """What window and session stores can be told besides."""

    retention: int = attrs.field(
        kw_only=True, default=DAY, converter=to_retention, validator=checked_retention
    )
    segments: int = attrs.field(kw_only=True, default=2, validator=checked_segments)
    stream_time: str = attrs.field(kw_only=True, default=None, validator=checked_stream_time)

    def __attrs_post_init__(self) -> None:
        """Default the stream time."""
        default_stream_time(self)

    @property
    def segment_width(self) -> int:
        """Length of a segment in ms."""
        return max(self.retention // (self.segments - 1), _SHORTEST_SEGMENT)

    def _topic_defaults(self) -> dict[str, str]:
        return {"cleanup.policy": "compact,delete", "retention.ms": str(self.retention + DAY)}
