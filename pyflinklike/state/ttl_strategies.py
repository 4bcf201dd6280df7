# SPDX-License-Identifier: Apache-2.0
"""The cleanup of expired entries that nobody reads.

It decides how much is stored, never what a reader sees of a live entry.

Users know these classes as `StateTtlConfig.CleanupStrategies` and the classes nested in it, as in
PyFlink.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, TypeVar

import attrs

from pyflinklike.clock import Duration
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown
from pyflinklike.state.ttl_checks import at_least, of_kind, to_compaction_period

__all__ = ["CleanupStrategies"]

_S = TypeVar("_S")


def _to_strategies(strategies: _Strategies) -> _StrategyItems:
    """Return the strategies as pairs in the order of the enum: frozen and hashable."""
    given: Any = strategies
    if not isinstance(given, (Mapping, tuple)):
        msg = f"strategies must be a dict, got {shown(given)}; give {{}} to set none"
        raise DeclarationTypeError(msg)
    given = dict(given)
    names = CleanupStrategies.Strategies
    kinds = {
        names.FULL_STATE_SCAN_SNAPSHOT: CleanupStrategies.CleanupStrategy,
        names.INCREMENTAL_CLEANUP: CleanupStrategies.IncrementalCleanupStrategy,
        names.ROCKSDB_COMPACTION_FILTER: CleanupStrategies.RocksdbCompactFilterCleanupStrategy,
    }
    for name, strategy in given.items():
        if name not in kinds or not isinstance(strategy, kinds[name]):
            msg = (
                f"strategies must map each of Strategies to its own CleanupStrategy, "
                f"got {name!r}: {shown(strategy)}; let StateTtlConfig.new_builder(ttl) do it"
            )
            raise DeclarationTypeError(msg)
    return tuple((name, given[name]) for name in kinds if name in given)


@attrs.frozen
class CleanupStrategies:
    """The cleanup of expired entries that nobody reads.

    Reading removes the expired entries that it meets, whatever is set here.

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
        """A strategy that has no settings."""

    @attrs.frozen
    class IncrementalCleanupStrategy(CleanupStrategy):
        """The check of some entries at each access of the state.

        Args:
            cleanup_size: Number of entries checked at each step, at least 1.
            run_cleanup_for_every_record: Whether each record is a step, too.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
            DeclarationValueError: The size is not positive.
        """

        _cleanup_size: int = attrs.field(validator=at_least(1))
        _run_cleanup_for_every_record: bool = attrs.field(
            validator=of_kind(bool, "give True or False")
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
            query_time_after_num_entries: Number of entries judged by one reading of the clock, at
                least 0.
            periodic_compaction_time: Age at which a log is compacted anew; zero switches that off;
                None is 30 days.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
            DeclarationValueError: An argument is negative.
        """

        _query_time_after_num_entries: int = attrs.field(validator=at_least(0))
        _periodic_compaction_time: Duration = attrs.field(
            default=None, converter=to_compaction_period
        )

        def get_query_time_after_num_entries(self) -> int:
            """Return the number of entries judged by one reading of the clock."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """Return the age at which a log is compacted anew; zero is never."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY: ClassVar[CleanupStrategy] = EmptyCleanupStrategy()

    _strategies: _StrategyItems = attrs.field(default=(), converter=_to_strategies)
    _is_cleanup_in_background: bool = attrs.field(
        default=True, validator=of_kind(bool, "give True or False")
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
    ) -> CleanupStrategies.IncrementalCleanupStrategy | None:
        """Return the strategy that was set; else (5, False) in background; else None."""
        return self._find(self.IncrementalCleanupStrategy(5, False))

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
        """Return the strategy that was set; else PyFlink's (1000, 30 days) in background; else None."""
        return self._find(self.RocksdbCompactFilterCleanupStrategy(1_000))

    def _find(self, default: _S) -> _S | None:
        for _, strategy in self._strategies:
            if isinstance(strategy, type(default)):
                return strategy
        return default if self._is_cleanup_in_background else None


_StrategyItems = tuple[tuple[CleanupStrategies.Strategies, CleanupStrategies.CleanupStrategy], ...]
_Strategies = (
    Mapping[CleanupStrategies.Strategies, CleanupStrategies.CleanupStrategy] | _StrategyItems
)
