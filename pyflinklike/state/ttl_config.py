# SPDX-License-Identifier: Apache-2.0
"""The declaration of how long state lives.

A `StateTtlConfig` answers four independent questions about one state:

* How long does an entry live?  The TTL, at least 1 ms.  An entry stamped at `t` is expired if
  `now >= t + ttl`, so it is expired at exactly `t + ttl`, too.
* What renews the stamp?  `UpdateType`: writes only, or reads too.
* What does a reader see of an expired entry that is still stored?  `StateVisibility`: nothing, or
  the value, once.
* Which time is `now`?  `TtlTimeCharacteristic`: the processing time, or the watermark.

`CleanupStrategies` answers a fifth: how are expired entries removed that are never read?  It
decides how much is stored, never what a reader sees of a live entry.

Names, defaults and the text of `repr` are as in PyFlink's `StateTtlConfig`.  A few values that
PyFlink accepts and Java then refuses (a TTL of zero, a cleanup size of zero) are refused here by
the call itself.  `DISABLED`, the copying builder and `in_rocksdb_compact_filter` are Java's.  Event
time is
ours, because Flink never shipped it (https://issues.apache.org/jira/browse/FLINK-12005).

Everything here is frozen and compared by value, except for the builder: its methods change it and
return it, so calls can be chained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Final, TypeVar

import attrs

from pyflinklike._checks import is_int, warn_of_plain_ttl
from pyflinklike._clock import Duration, DurationLike, Time, to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.table import Setting

_S = TypeVar("_S")


# Validators and converters come first, because attrs uses them while it makes the classes below.


def _of_kind(kind: type, remedy: str) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be an instance of `kind`."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind):
            name = attribute.name.lstrip("_")
            msg = f"{name} must be a {kind.__qualname__}, got {short_repr(value)}; {remedy}"
            raise DeclarationTypeError(msg)

    return check


def _at_least(minimum: int) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be an int of at least `minimum`."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        msg = (
            f"{attribute.name.lstrip('_')} must be an int of at least {minimum}, "
            f"got {short_repr(value)}; it counts state entries"
        )
        if not is_int(value):
            raise DeclarationTypeError(msg)
        if value < minimum:
            raise DeclarationValueError(msg)

    return check


def _to_compaction_period(period: DurationLike | None) -> Duration:
    """Return the period as a `Duration`; None is Flink's default, zero stays zero."""
    if period is None:
        return Duration.of_days(30)
    if to_milliseconds(period, "periodic_compaction_time") < 0:
        msg = (
            f"periodic_compaction_time must not be negative, got {short_repr(period)}; "
            f"Duration.of_millis(0) switches it off"
        )
        raise DeclarationValueError(msg)
    if isinstance(period, Duration):
        return period
    if isinstance(period, timedelta):
        # Count in microseconds: in whole ms, a period of 0.5 ms would be 0, which switches it off.
        return Duration.of_nanos(period // timedelta(microseconds=1) * 1_000)
    return Duration.of_millis(to_milliseconds(period))


def _to_strategies(strategies: _Strategies) -> _StrategyItems:
    """Return the strategies as pairs in the order of the enum: frozen and hashable."""
    given: Any = strategies
    if not isinstance(given, (Mapping, tuple)):
        msg = f"strategies must be a dict, got {short_repr(given)}; give {{}} to set none"
        raise DeclarationTypeError(msg)
    given = dict(given)
    cleanup = StateTtlConfig.CleanupStrategies
    kinds = {
        cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT: cleanup.CleanupStrategy,
        cleanup.Strategies.INCREMENTAL_CLEANUP: cleanup.IncrementalCleanupStrategy,
        cleanup.Strategies.ROCKSDB_COMPACTION_FILTER: cleanup.RocksdbCompactFilterCleanupStrategy,
    }
    for name, strategy in given.items():
        if name not in kinds or not isinstance(strategy, kinds[name]):
            msg = (
                f"strategies must map each of Strategies to its own CleanupStrategy, "
                f"got {name!r}: {short_repr(strategy)}; let StateTtlConfig.new_builder(ttl) do it"
            )
            raise DeclarationTypeError(msg)
    return tuple((name, given[name]) for name in kinds if name in given)


def _member_of(kind: type[Enum]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Build an attrs validator: the argument must be a member of the enum."""
    return _of_kind(kind, f"give one of {', '.join(str(member) for member in kind)}")


def _to_ttl(ttl: DurationLike | None) -> Time:
    """Return the TTL as a `Time` of whole ms, at least one."""
    if ttl is None:
        msg = (
            "a TTL is required, got None; write for example StateTtlConfig(ttl=timedelta(hours=1))"
        )
        raise DeclarationTypeError(msg)
    milliseconds = to_milliseconds(ttl, "a TTL")
    if milliseconds < 1:
        msg = f"a TTL must be at least 1 ms, got {short_repr(ttl)}; StateTtlConfig.DISABLED switches TTL off"
        raise DeclarationValueError(msg)
    warn_of_plain_ttl(ttl)
    return Time(milliseconds)


@attrs.frozen(repr=False)
class StateTtlConfig:
    """The time to live of one state, as `pyflink.datastream.state.StateTtlConfig`.

    `new_builder` is the usual way.  The arguments are in PyFlink's order; by keyword only `ttl` is
    needed: `StateTtlConfig(ttl=timedelta(hours=1))`.

    Example:
        ```python
        ttl = StateTtlConfig.new_builder(timedelta(hours=1)).update_ttl_on_read_and_write().build()
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(ttl)
        ```

    Args:
        update_type: Whether only writes or also reads renew the stamp of an entry.
        state_visibility: Whether a reader may see an expired entry.
        ttl_time_characteristic: The clock that decides what is expired.
        ttl: How long an entry lives: `Time`, `timedelta`, `Duration` or an int of ms.
        cleanup_strategies: How expired entries are removed that are never read.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind, or no TTL is given.
        DeclarationValueError: The TTL is shorter than 1 ms.
    """

    class UpdateType(Enum):
        """The accesses that renew the stamp of an entry."""

        Disabled = 0
        """TTL is off: entries get no stamp and do not expire."""
        OnCreateAndWrite = 1
        """Writing an entry; in a list or map, only the elements or entries that are written."""
        OnReadAndWrite = 2
        """Writing an entry, and reading an entry that is alive."""

    class StateVisibility(Enum):
        """The result of reading an expired entry that is still stored."""

        ReturnExpiredIfNotCleanedUp = 0
        """The value, once: the read also removes it."""
        NeverReturnExpired = 1
        """No value, as if the entry had been removed."""

    class TtlTimeCharacteristic(Enum):
        """Which clock decides what is expired."""

        ProcessingTime = 0
        """The processing time of the current call."""
        EventTime = 1
        """The watermark (ours; Flink has no event-time TTL, FLINK-12005)."""

    @attrs.frozen
    class CleanupStrategies:
        """The cleanup of expired entries that are never read.

        Reading removes the expired entries that it meets, even if no cleanup is set.

        Args:
            strategies: The strategies that were set explicitly, by `Strategies`.
            is_cleanup_in_background: Whether strategies that are not set take their defaults.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """

        class Strategies(Enum):
            """The kinds of cleanup, at most one of each."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """The base of the strategies' settings."""

        @attrs.frozen
        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        @attrs.frozen
        class IncrementalCleanupStrategy(CleanupStrategy):
            """The check of some entries at each access of the state.

            Args:
                cleanup_size: Number of entries checked at each step, at least 1.
                run_cleanup_for_every_record: Whether each record is a step, too, even if its call
                    does not access the state.

            Raises:
                DeclarationTypeError: An argument is of the wrong kind.
                DeclarationValueError: The size is not positive.
            """

            _cleanup_size: int = attrs.field(validator=_at_least(1))
            _run_cleanup_for_every_record: bool = attrs.field(
                validator=_of_kind(bool, "give True or False")
            )

            def get_cleanup_size(self) -> int:
                """Return the number of entries checked at each step."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Return whether each record is a step, too, accessed state or not."""
                return self._run_cleanup_for_every_record

        @attrs.frozen
        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """The cleanup by a compaction, which leaves expired entries out.

            Args:
                query_time_after_num_entries: Number of entries that are checked by one reading of
                    the clock, at least 0.
                periodic_compaction_time: Age at which a log is compacted anew.  Zero switches that
                    off, and None means 30 days.

            Raises:
                DeclarationTypeError: An argument is of the wrong kind.
                DeclarationValueError: An argument is negative.
            """

            _query_time_after_num_entries: int = attrs.field(validator=_at_least(0))
            _periodic_compaction_time: Duration = attrs.field(
                default=None, converter=_to_compaction_period
            )

            def get_query_time_after_num_entries(self) -> int:
                """Return the number of entries that are checked by one reading of the clock."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return the age at which a log is compacted anew; zero is never."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY: ClassVar[CleanupStrategy] = EmptyCleanupStrategy()

        _strategies: _StrategyItems = attrs.field(default=(), converter=_to_strategies)
        _is_cleanup_in_background: bool = attrs.field(
            default=True, validator=_of_kind(bool, "give True or False")
        )

        def is_cleanup_in_background(self) -> bool:
            """Return whether cleanup that is not set explicitly runs with its defaults."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Return whether a full snapshot leaves expired entries out; local state stays."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in dict(self._strategies)

        def in_rocksdb_compact_filter(self) -> bool:
            """Return whether compaction leaves expired entries out, as Java's."""
            return self.get_rocksdb_compact_filter_cleanup_strategy() is not None

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the strategy that was set, or (5, False) in background, or None."""
            return self._find(self.IncrementalCleanupStrategy(5, False))

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the strategy that was set, or (1000, 30 days) in background, or None."""
            return self._find(self.RocksdbCompactFilterCleanupStrategy(1_000))

        def _find(self, default: _S) -> _S | None:
            for _, strategy in self._strategies:
                if isinstance(strategy, type(default)):
                    return strategy
            return default if self._is_cleanup_in_background else None

    class Builder:
        """A builder of a `StateTtlConfig`; each method changes the builder and returns it.

        Args:
            ttl: How long an entry lives, or a configuration to begin with.

        Raises:
            DeclarationTypeError: An argument, here or below, is of the wrong kind.
            DeclarationValueError: An argument, here or below, is out of its range:
                a TTL below 1 ms, a cleanup size below 1, a negative setting.
        """

        def __init__(self, ttl: DurationLike | StateTtlConfig) -> None:
            self._config = ttl if isinstance(ttl, StateTtlConfig) else StateTtlConfig(ttl=ttl)

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set what renews the stamp of an entry."""
            return self._change(update_type=update_type)

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Let only writes renew the stamp (the default)."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Let writes and reads renew the stamp."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Set what a reader sees of an expired entry that is still stored."""
            return self._change(state_visibility=state_visibility)

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let a reader see an expired entry that is still stored, once."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Let no reader see an expired entry (the default)."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set which clock decides what is expired."""
            return self._change(ttl_time_characteristic=ttl_time_characteristic)

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Let the processing time decide what is expired (the default)."""
            return self.set_ttl_time_characteristic(
                StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            )

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Let the watermark decide what is expired (ours, not Flink's)."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of full snapshots."""
            cleanup = StateTtlConfig.CleanupStrategies
            return self._add(cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT, cleanup.EMPTY_STRATEGY)

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Check `cleanup_size` entries at each access; see `IncrementalCleanupStrategy`."""
            cleanup = StateTtlConfig.CleanupStrategies
            return self._add(
                cleanup.Strategies.INCREMENTAL_CLEANUP,
                cleanup.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record),
            )

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: DurationLike | None = None,
        ) -> StateTtlConfig.Builder:
            """Clean in compaction; see `RocksdbCompactFilterCleanupStrategy`."""
            cleanup = StateTtlConfig.CleanupStrategies
            return self._add(
                cleanup.Strategies.ROCKSDB_COMPACTION_FILTER,
                cleanup.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                ),
            )

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Drop the default cleanups; those set explicitly stay."""
            return self._change(
                cleanup_strategies=attrs.evolve(
                    self._config.get_cleanup_strategies(),
                    is_cleanup_in_background=False,
                )
            )

        def set_ttl(self, ttl: DurationLike) -> StateTtlConfig.Builder:
            """Set how long an entry lives."""
            return self._change(ttl=ttl)

        def build(self) -> StateTtlConfig:
            """Return the configuration so far; the builder can be used further."""
            return self._config

        def _change(self, **changes: Any) -> StateTtlConfig.Builder:
            self._config = attrs.evolve(self._config, **changes)
            return self

        def _add(
            self,
            name: StateTtlConfig.CleanupStrategies.Strategies,
            strategy: StateTtlConfig.CleanupStrategies.CleanupStrategy,
        ) -> StateTtlConfig.Builder:
            cleanup = self._config.get_cleanup_strategies()
            strategies = {**dict(cleanup._strategies), name: strategy}
            return self._change(cleanup_strategies=attrs.evolve(cleanup, strategies=strategies))

    DISABLED: ClassVar[StateTtlConfig]
    """No TTL, as Java's: `enable_time_to_live(DISABLED)` switches it off again."""

    _update_type: UpdateType = attrs.field(
        default=UpdateType.OnCreateAndWrite, validator=_member_of(UpdateType)
    )
    _state_visibility: StateVisibility = attrs.field(
        default=StateVisibility.NeverReturnExpired, validator=_member_of(StateVisibility)
    )
    _ttl_time_characteristic: TtlTimeCharacteristic = attrs.field(
        default=TtlTimeCharacteristic.ProcessingTime,
        validator=_member_of(TtlTimeCharacteristic),
    )
    _ttl: Time = attrs.field(default=None, converter=_to_ttl)
    _cleanup_strategies: CleanupStrategies = attrs.field(
        factory=CleanupStrategies,
        validator=_of_kind(CleanupStrategies, "let StateTtlConfig.new_builder(ttl) make it"),
    )

    @staticmethod
    def new_builder(ttl: DurationLike | StateTtlConfig) -> StateTtlConfig.Builder:
        """Return a builder of a TTL this long, or of a changed copy of a configuration.

        Args:
            ttl: `Time`, `timedelta`, `Duration`, an int of ms, or the configuration to copy.

        Raises:
            DeclarationTypeError: The argument is of another type.
            DeclarationValueError: The TTL is shorter than 1 ms.
        """
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return what renews the stamp of an entry."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return what a reader sees of an expired entry that is still stored."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return how long an entry lives."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return which clock decides what is expired."""
        return self._ttl_time_characteristic

    @property
    def clock(self) -> Setting:
        """The clock as a setting that must not change, since the other clock has other stamps."""
        return clock_of_ttl(self._ttl_time_characteristic.name)

    def is_enabled(self) -> bool:
        """Return whether entries are stamped at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return the cleanup of expired entries that are never read."""
        return self._cleanup_strategies

    @property
    def ttl_ms(self) -> int:
        """The TTL in ms."""
        return self._ttl.to_milliseconds()

    def __repr__(self) -> str:
        # The same text as PyFlink's, with its uneven spaces.
        return (
            f"StateTtlConfig<update_type={self._update_type!s}, "
            f"state_visibility={self._state_visibility!s},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic!s},"
            f"ttl={self._ttl!s}>"
        )


# As in Java.  A configuration must have a TTL, so this one has the longest.
StateTtlConfig.DISABLED = StateTtlConfig(
    update_type=StateTtlConfig.UpdateType.Disabled, ttl=Time(2**63 - 1)
)

_StrategyItems = tuple[
    tuple[
        StateTtlConfig.CleanupStrategies.Strategies,
        StateTtlConfig.CleanupStrategies.CleanupStrategy,
    ],
    ...,
]
_Strategies = (
    Mapping[
        StateTtlConfig.CleanupStrategies.Strategies,
        StateTtlConfig.CleanupStrategies.CleanupStrategy,
    ]
    | _StrategyItems
)

CLOCK_OF_TTL: Final = "the clock of its TTL"
"""Name of the setting that keeps the clock of a TTL."""


def clock_of_ttl(time: str) -> Setting:
    """Return the clock of a TTL as a setting of the table whose entries it stamps.

    Args:
        time: Name of a `TtlTimeCharacteristic`.
    """
    remedy = (
        "its stamps mean nothing by the other clock: keep the former, use another state, or begin "
        "a new checkpoint with a savepoint that Savepoint.with_ttl() has changed"
    )
    return Setting(CLOCK_OF_TTL, time, remedy=remedy)
