# SPDX-License-Identifier: Apache-2.0
"""Descriptors: how a function declares the store that it wants.

Descriptors are values: they are compared and pickled by value, and check their fields when they are
made.  Each check is a validator of attrs: it takes the descriptor, the attribute and the value, and
raises `DeclarationTypeError` or `DeclarationValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic

import attrs

from pyflinklike._checks import check_choice, is_int
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._runtime.call_contexts import Extension, Surroundings
from pyflinklike._type_vars import K, V
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import ChangelogTag, OutputTag
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.stores.store_codec import check_key_type
from pyflinklike.stores.store_records import ChangelogRecord
from pyflinklike.types import TypeInformation, Types

DAY = 86_400_000
"""A day in ms, by which a changelog keeps entries longer than its store, as in Kafka Streams."""
_SHORTEST_SEGMENT = 60_000


def check_name(_: Any, __: Any, name: Any) -> None:
    """Refuse a name that Kafka would refuse as a topic's: 1 to 249 of certain characters."""
    if not isinstance(name, str):
        msg = f"the name of a store must be a str, got {short_repr(name)}; name it"
        raise DeclarationTypeError(msg)
    if not _NAME.fullmatch(name):
        msg = f"the name of a store must be 1 to 249 of A-Z a-z 0-9 . _ -, got {name!r}; rename it"
        raise DeclarationValueError(msg)


def check_type(descriptor: Any, attribute: Any, given: Any) -> None:
    """Refuse a value that is not a type, and a type of keys without an order."""
    if not isinstance(given, TypeInformation):
        remedy = instance_of(TypeInformation, given, "use for example Types.LONG(), with ()")
        msg = (
            f"store {descriptor.name!r}: {attribute.name} must be a TypeInformation, "
            f"got {short_repr(given)}; {remedy}"
        )
        raise DeclarationTypeError(msg)
    if attribute.name == "key_type":
        check_key_type(descriptor.name, given)


def check_bool(descriptor: Any, attribute: Any, given: Any) -> None:
    """Refuse a value other than True and False."""
    if not isinstance(given, bool):
        msg = f"store {descriptor.name!r}: {attribute.name} must be a bool, got {short_repr(given)}"
        raise DeclarationTypeError(f"{msg}; give True or False")


def check_config(descriptor: Any, _: Any, given: Any) -> None:
    """Refuse a value other than None and a mapping with texts as keys."""
    texts = isinstance(given, Mapping) and all(isinstance(key, str) for key in given)
    if given is not None and not texts:
        msg = (
            f"store {descriptor.name!r}: changelog_config must be a dict of topic settings, "
            f"got {short_repr(given)}; for example {{'segment.bytes': '1048576'}}"
        )
        raise DeclarationTypeError(msg)


def check_scope(descriptor: Any, _: Any, given: Any) -> None:
    """Refuse a value other than the two scopes."""
    check_choice(given, _SCOPES, f"store {descriptor.name!r}: scope")


_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SCOPES = ("key", "partition")


@attrs.frozen
class StoreDescriptor(Generic[K, V]):
    """The declaration of a store: its name, its types, and the options of all kinds of store.

    Args:
        name: Name of the store, unique within the function; 1 to 249 of `A-Z a-z 0-9 . _ -`.
        key_type: The type of the store's keys, which must have an order.
        value_type: The type of the values.
        caching: True to log only the last of several changes of an entry within a micro-batch.
        changelog: True to send changes to `changelog_tag`.  The store is durable either way.
        changelog_config: Settings of the topic for the changelog, in place of Kafka Streams'
            defaults; `store.changelog_config` has both.
        scope: "key" gives each current key its own store; with "partition", all keys of a key group
            share one.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """

    name: str = attrs.field(validator=check_name)
    key_type: TypeInformation[K] = attrs.field(validator=check_type)
    value_type: TypeInformation[V] = attrs.field(validator=check_type)
    caching: bool = attrs.field(kw_only=True, default=True, validator=check_bool)
    changelog: bool = attrs.field(kw_only=True, default=True, validator=check_bool)
    changelog_config: Mapping[str, Any] | None = attrs.field(
        kw_only=True, default=None, validator=check_config, hash=False
    )
    scope: str = attrs.field(kw_only=True, default="key", validator=check_scope)

    _make_extension: ClassVar[Any]
    """The class that opens stores.  `state_store` sets it, because it imports this module."""

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
        """Make the store, not yet opened; each kind of descriptor overrides this."""
        raise NotImplementedError

    def new_extension(self, surroundings: Surroundings) -> Extension:
        """Return the registry that opens the stores of an operator, for the operator's first store."""
        made: Extension = self._make_extension(surroundings)
        return made

    def topic_config(self) -> dict[str, str]:
        """Return the declared settings of the changelog topic, and defaults for all others."""
        declared = {key: str(value) for key, value in (self.changelog_config or {}).items()}
        return {**self._topic_defaults(), **declared}

    def spec(self) -> TableSpec:
        """Return the spec of the table, for the backend and the log of the key group."""
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
        """Return the properties that a restart must not change, besides the type of the values."""
        return f"{self.noun} store by {self.key_type.signature}, scope {self.scope}"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        return (("key", self.key_type),)

    def _topic_defaults(self) -> dict[str, str]:
        return {"cleanup.policy": "compact"}


def at_least(least: int, remedy: str, unit: str = "") -> Callable[[Any, Any, Any], None]:
    """Return a check that refuses other values than ints, and ints that are less."""

    def check(descriptor: Any, attribute: Any, given: Any) -> None:
        what = f"store {descriptor.name!r}: {attribute.name}"
        if not is_int(given):
            msg = f"{what} must be an int, got {short_repr(given)}; for example 100"
            raise DeclarationTypeError(msg)
        if given < least:
            msg = f"{what} must be at least {least}{unit}, got {short_repr(given)}{unit}; {remedy}"
            raise DeclarationValueError(msg)

    return check


def to_retention(length: DurationLike) -> int:
    """Convert a `retention` to ms."""
    return to_milliseconds(length, "retention")


def check_stream_time(descriptor: Any, _: Any, given: Any) -> None:
    """Refuse a value other than None and a mode that fits the scope."""
    if given is None:
        return
    check_choice(given, _STREAM_TIMES, f"store {descriptor.name!r}: stream_time")
    if given == "key" and descriptor.scope == "partition":
        msg = (
            f"store {descriptor.name!r}: stream_time 'key' needs scope 'key', got scope "
            f"{descriptor.scope!r}; choose 'partition' or 'watermark'"
        )
        raise DeclarationValueError(msg)


_STREAM_TIMES = ("key", "partition", "watermark")


@attrs.frozen
class TimedStoreDescriptor(StoreDescriptor[K, V]):
    """The option of all stores whose entries have a time; None takes the same as the scope."""

    stream_time: str = attrs.field(kw_only=True, default=None, validator=check_stream_time)

    def __attrs_post_init__(self) -> None:
        """Default the stream time."""
        if self.stream_time is None:
            object.__setattr__(self, "stream_time", self.scope)


@attrs.frozen
class ExpiringStoreDescriptor(TimedStoreDescriptor[K, V]):
    """The options of window and session stores."""

    retention: int = attrs.field(
        kw_only=True,
        default=DAY,
        converter=to_retention,
        validator=at_least(1, "a shorter one would keep no entry", " ms"),
    )
    segments: int = attrs.field(kw_only=True, default=2, validator=at_least(2, "give 2"))

    @property
    def segment_width(self) -> int:
        """The length of a time segment in ms."""
        return max(self.retention // (self.segments - 1), _SHORTEST_SEGMENT)

    def _topic_defaults(self) -> dict[str, str]:
        return {"cleanup.policy": "compact,delete", "retention.ms": str(self.retention + DAY)}
