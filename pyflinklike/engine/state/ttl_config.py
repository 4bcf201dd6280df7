# SPDX-License-Identifier: Apache-2.0
"""The declaration of how long state lives.

A `StateTtlConfig` answers four independent questions about one state:

* How long does an entry live?  The TTL, at least 1 ms.  An entry stamped at `t` is expired as soon
  as `now >= t + ttl`, so at exactly `t + ttl` too.
* What renews the stamp?  `UpdateType`: writes only, or reads too.
* What does a reader see of an expired entry that is still stored?  `StateVisibility`: nothing, or
  the value, once.
* Whose `now` is it?  `TtlTimeCharacteristic`: the processing time, or the watermark.

`CleanupStrategies` answers a fifth: who removes the expired entries that nobody reads.

Names, defaults and the letters of `repr` are those of PyFlink's `StateTtlConfig`.  What PyFlink
lets pass and Java refuses (a TTL of zero, a cleanup size of zero) is refused here, by the very
call. `DISABLED`, the copying builder and `in_rocksdb_compact_filter` are Java's; event time is
ours, for Flink never shipped it.

Everything here is frozen and compared by value.  The builder is the one exception:
its methods change it and return it, so they can be chained, or not.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from pyflinklike.clock import DurationLike, Time
from pyflinklike.state.table import Setting
from pyflinklike.state.ttl_checks import member_of, of_kind, to_ttl
from pyflinklike.state.ttl_strategies import CleanupStrategies as _Cleanup

__all__ = ["CLOCK_OF_TTL", "StateTtlConfig", "clock_of_ttl"]

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


@attrs.frozen(repr=False, auto_attribs=False)  # an alias is annotated too
class StateTtlConfig:
    """The time to live of one state, as `pyflink.datastream.state.StateTtlConfig`.

    The arguments are in PyFlink's order; by keyword only `ttl` is needed:

        StateTtlConfig(ttl=timedelta(hours=1))

    Args:
        update_type: What renews the stamp of an entry.
        state_visibility: Whether a reader may see an expired entry.
        ttl_time_characteristic: Which clock decides.
        ttl: How long an entry lives: `Time`, `timedelta`, `Duration` or an int of ms.
        cleanup_strategies: Who removes expired entries that nobody reads.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind; no TTL is given.
        DeclarationValueError: The TTL is shorter than 1 ms.
    """

    class UpdateType(Enum):
        """What renews the stamp of an entry."""

        Disabled = 0
        """TTL is off: nothing is stamped, nothing expires."""
        OnCreateAndWrite = 1
        """Creating and overwriting; of a list or map, only what is written."""
        OnReadAndWrite = 2
        """These, and reading an entry that is alive."""

    class StateVisibility(Enum):
        """What a reader sees of an expired entry that is still stored."""

        ReturnExpiredIfNotCleanedUp = 0
        """Its value, once: the read also removes it."""
        NeverReturnExpired = 1
        """Nothing, as if it had been removed."""

    class TtlTimeCharacteristic(Enum):
        """Which clock decides what is expired."""

        ProcessingTime = 0
        """The processing time of the current call."""
        EventTime = 1
        """The watermark (ours; Flink has no event-time TTL, FLINK-12005)."""

    CleanupStrategies: TypeAlias = _Cleanup

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
            return self._add(_Cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT, _Cleanup.EMPTY_STRATEGY)

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Check `cleanup_size` entries at each access; see `IncrementalCleanupStrategy`."""
            return self._add(
                _Cleanup.Strategies.INCREMENTAL_CLEANUP,
                _Cleanup.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record),
            )

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: DurationLike | None = None,
        ) -> StateTtlConfig.Builder:
            """Clean in compaction; see `RocksdbCompactFilterCleanupStrategy`."""
            return self._add(
                _Cleanup.Strategies.ROCKSDB_COMPACTION_FILTER,
                _Cleanup.RocksdbCompactFilterCleanupStrategy(
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
            """Return the configuration so far; the builder can go on from here."""
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
        default=UpdateType.OnCreateAndWrite, validator=member_of(UpdateType)
    )
    _state_visibility: StateVisibility = attrs.field(
        default=StateVisibility.NeverReturnExpired, validator=member_of(StateVisibility)
    )
    _ttl_time_characteristic: TtlTimeCharacteristic = attrs.field(
        default=TtlTimeCharacteristic.ProcessingTime,
        validator=member_of(TtlTimeCharacteristic),
    )
    _ttl: Time = attrs.field(default=None, converter=to_ttl)
    _cleanup_strategies: CleanupStrategies = attrs.field(
        factory=CleanupStrategies,
        validator=of_kind(CleanupStrategies, "let StateTtlConfig.new_builder(ttl) make it"),
    )

    @staticmethod
    def new_builder(ttl: DurationLike | StateTtlConfig) -> StateTtlConfig.Builder:
        """Return a builder of a TTL this long, or of a changed copy of a configuration.

        Args:
            ttl: `Time`, `timedelta`, `Duration`, an int of ms, or the configuration to copy.

        Raises:
            DeclarationTypeError: The argument is none of these.
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
        """The clock as a setting that may not change: its stamps say nothing to the other clock."""
        return clock_of_ttl(self._ttl_time_characteristic.name)

    def is_enabled(self) -> bool:
        """Return whether entries are stamped at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return the cleanup of expired entries that nobody reads."""
        return self._cleanup_strategies

    @property
    def ttl_ms(self) -> int:
        """The TTL in ms."""
        return self._ttl.to_milliseconds()

    def __repr__(self) -> str:
        # PyFlink's letters, its uneven spaces included.
        return (
            f"StateTtlConfig<update_type={self._update_type!s}, "
            f"state_visibility={self._state_visibility!s},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic!s},"
            f"ttl={self._ttl!s}>"
        )


# Nested here by name as well: it is what users write, `repr` shows and pickle looks up.
for _each in (_Cleanup, *vars(_Cleanup).values()):
    if isinstance(_each, type):
        _each.__qualname__ = f"StateTtlConfig.{_each.__qualname__}"

# As in Java.  A TTL must be given, so it is the longest one.
StateTtlConfig.DISABLED = StateTtlConfig(
    update_type=StateTtlConfig.UpdateType.Disabled, ttl=Time(2**63 - 1)
)
