# SPDX-License-Identifier: Apache-2.0
"""The cleanup strategies of `StateTtlConfig`."""

from datetime import timedelta

import pytest

from pyflinklike._clock import Duration, Time
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.ttl_config import StateTtlConfig

CleanupStrategies = StateTtlConfig.CleanupStrategies
Strategies = CleanupStrategies.Strategies
IncrementalCleanupStrategy = CleanupStrategies.IncrementalCleanupStrategy
RocksdbCompactFilterCleanupStrategy = CleanupStrategies.RocksdbCompactFilterCleanupStrategy


def hour() -> StateTtlConfig.Builder:
    """A builder of a TTL of one hour."""
    return StateTtlConfig.new_builder(Time.hours(1))


def cleanup(builder: StateTtlConfig.Builder) -> StateTtlConfig.CleanupStrategies:
    """The cleanup strategies of what a builder builds."""
    return builder.build().get_cleanup_strategies()


def test_background_is_on():
    """Cleanup in background is on by default."""
    assert cleanup(hour()).is_cleanup_in_background()


def test_disable_cleanup_in_background():
    """disable_cleanup_in_background switches it off."""
    assert not cleanup(hour().disable_cleanup_in_background()).is_cleanup_in_background()


def test_full_snapshot_is_off():
    """Full snapshots keep expired entries by default, although the background is on."""
    assert not cleanup(hour()).in_full_snapshot()


def test_cleanup_full_snapshot():
    """cleanup_full_snapshot makes full snapshots leave them out."""
    assert cleanup(hour().cleanup_full_snapshot()).in_full_snapshot()


def test_full_snapshot_without_background():
    """Cleanup of full snapshots does not depend on the background."""
    builder = hour().disable_cleanup_in_background().cleanup_full_snapshot()

    assert cleanup(builder).in_full_snapshot()


def test_default_incremental_cleanup():
    """In background, five entries are checked per access and none per record."""
    expected = IncrementalCleanupStrategy(5, False)

    assert expected == cleanup(hour()).get_incremental_cleanup_strategy()


def test_no_incremental_cleanup():
    """Without background and with nothing set there is no incremental cleanup."""
    strategies = cleanup(hour().disable_cleanup_in_background())

    assert None is strategies.get_incremental_cleanup_strategy()


@pytest.mark.parametrize("background", [True, False])
def test_explicit_incremental_cleanup(background):
    """What was set is given whether the background is on or off."""
    strategy = IncrementalCleanupStrategy(10, True)
    strategies = CleanupStrategies({Strategies.INCREMENTAL_CLEANUP: strategy}, background)

    assert strategy == strategies.get_incremental_cleanup_strategy()


def test_cleanup_incrementally():
    """cleanup_incrementally sets size and per-record cleanup."""
    strategy = cleanup(hour().cleanup_incrementally(10, True)).get_incremental_cleanup_strategy()

    assert (10, True) == (strategy.get_cleanup_size(), strategy.run_cleanup_for_every_record())


def test_cleanup_incrementally_again():
    """The last setting of a strategy wins."""
    builder = hour().cleanup_incrementally(10, True).cleanup_incrementally(20, False)

    expected = IncrementalCleanupStrategy(20, False)
    assert expected == cleanup(builder).get_incremental_cleanup_strategy()


def test_disabling_the_background_keeps_what_is_set():
    """disable_cleanup_in_background after an explicit strategy keeps the strategy."""
    builder = hour().cleanup_incrementally(10, True).disable_cleanup_in_background()

    expected = IncrementalCleanupStrategy(10, True)
    assert expected == cleanup(builder).get_incremental_cleanup_strategy()


@pytest.mark.parametrize("size", [0, -2])
def test_cleanup_size_must_be_positive(size):
    """A size of zero or less is refused by cleanup_incrementally."""
    with pytest.raises(DeclarationValueError, match=f"at least 1, got {size}"):
        hour().cleanup_incrementally(size, True)


@pytest.mark.parametrize("size", [None, True, 2.5, "5"])
def test_cleanup_size_must_be_an_int(size):
    """A size that is not an int is refused; a bool is not an int."""
    with pytest.raises(DeclarationTypeError, match="cleanup_size"):
        hour().cleanup_incrementally(size, True)


@pytest.mark.parametrize("every_record", [None, 1, "yes"])
def test_every_record_must_be_a_bool(every_record):
    """Whether every record is a step is yes or no."""
    with pytest.raises(DeclarationTypeError, match="run_cleanup_for_every_record"):
        hour().cleanup_incrementally(5, every_record)


def test_every_record_has_no_default():
    """cleanup_incrementally wants both arguments, as PyFlink's does."""
    with pytest.raises(TypeError):
        hour().cleanup_incrementally(5)  # type: ignore[call-arg]


def test_default_compaction_filter():
    """In background, the filter has PyFlink's defaults: 1000 entries and 30 days."""
    expected = RocksdbCompactFilterCleanupStrategy(1_000, Duration.of_days(30))

    assert expected == cleanup(hour()).get_rocksdb_compact_filter_cleanup_strategy()


def test_no_compaction_filter():
    """Without background and with nothing set there is no filter."""
    strategies = cleanup(hour().disable_cleanup_in_background())

    assert None is strategies.get_rocksdb_compact_filter_cleanup_strategy()


@pytest.mark.parametrize("background", [True, False])
def test_explicit_compaction_filter(background):
    """What was set is given whether the background is on or off."""
    strategy = RocksdbCompactFilterCleanupStrategy(7, Duration.of_days(1))
    strategies = CleanupStrategies({Strategies.ROCKSDB_COMPACTION_FILTER: strategy}, background)

    assert strategy == strategies.get_rocksdb_compact_filter_cleanup_strategy()


@pytest.mark.parametrize(
    ("expected", "builder"),
    [
        (True, hour()),
        (False, hour().disable_cleanup_in_background()),
        (True, hour().disable_cleanup_in_background().cleanup_in_rocksdb_compact_filter(1)),
    ],
)
def test_in_rocksdb_compact_filter(expected, builder):
    """The filter is on in background, or when it is set, as in Java."""
    assert expected is cleanup(builder).in_rocksdb_compact_filter()


def test_cleanup_in_rocksdb_compact_filter():
    """cleanup_in_rocksdb_compact_filter sets entries and period."""
    builder = hour().cleanup_in_rocksdb_compact_filter(7, Duration.of_hours(2))

    expected = RocksdbCompactFilterCleanupStrategy(7, Duration.of_hours(2))
    assert expected == cleanup(builder).get_rocksdb_compact_filter_cleanup_strategy()


def test_query_time_after_num_entries():
    """The number of entries per reading of the clock is given back."""
    assert 7 == RocksdbCompactFilterCleanupStrategy(7).get_query_time_after_num_entries()


@pytest.mark.parametrize(
    ("expected", "period"),
    [
        (Duration.of_days(30), None),
        (Duration.of_days(1), Duration.of_days(1)),
        (Duration.of_days(1), timedelta(days=1)),
        (Duration.of_days(1), Time.days(1)),
        (Duration.of_days(1), 86_400_000),
        (Duration.of_millis(0), Duration.of_millis(0)),
        (Duration.of_millis(0), timedelta(0)),
        (Duration.of_millis(0), Time(0)),
        (Duration.of_millis(0), 0),
        (Duration.of_nanos(500_000), timedelta(microseconds=500)),
    ],
    ids=repr,
)
def test_periodic_compaction_time_is_a_duration(expected, period):
    """Every kind of length gives a Duration; None is 30 days, zero stays zero."""
    strategy = RocksdbCompactFilterCleanupStrategy(7, period)

    assert expected == strategy.get_periodic_compaction_time()


@pytest.mark.parametrize(
    "period", [Duration.of_millis(-1), timedelta(microseconds=-1), Time(-1), -1], ids=repr
)
def test_periodic_compaction_time_must_not_be_negative(period):
    """A negative period is refused."""
    with pytest.raises(DeclarationValueError, match="periodic_compaction_time"):
        hour().cleanup_in_rocksdb_compact_filter(7, period)


@pytest.mark.parametrize("period", [True, 1.5, "30 d"])
def test_periodic_compaction_time_must_be_a_length(period):
    """What is no length of time is refused."""
    with pytest.raises(DeclarationTypeError, match="periodic_compaction_time"):
        hour().cleanup_in_rocksdb_compact_filter(7, period)


def test_query_time_after_num_entries_must_not_be_negative():
    """A negative number of entries is refused."""
    with pytest.raises(DeclarationValueError, match="query_time_after_num_entries"):
        hour().cleanup_in_rocksdb_compact_filter(-1)


@pytest.mark.parametrize("entries", [None, True, 1.5, "7"])
def test_query_time_after_num_entries_must_be_an_int(entries):
    """A number of entries that is not an int is refused."""
    with pytest.raises(DeclarationTypeError, match="query_time_after_num_entries"):
        hour().cleanup_in_rocksdb_compact_filter(entries)


@pytest.mark.parametrize(
    "strategy",
    [
        CleanupStrategies.EMPTY_STRATEGY,
        CleanupStrategies.EmptyCleanupStrategy(),
        IncrementalCleanupStrategy(5, False),
        RocksdbCompactFilterCleanupStrategy(7),
    ],
)
def test_strategies_are_cleanup_strategies(strategy):
    """All strategies' settings have the base that PyFlink gives them."""
    assert isinstance(strategy, CleanupStrategies.CleanupStrategy)


def test_empty_strategy():
    """EMPTY_STRATEGY is the strategy without settings."""
    assert CleanupStrategies.EmptyCleanupStrategy() == CleanupStrategies.EMPTY_STRATEGY


def test_strategies_are_copied():
    """Changing the dict afterwards does not change the strategies."""
    given = {Strategies.FULL_STATE_SCAN_SNAPSHOT: CleanupStrategies.EMPTY_STRATEGY}
    strategies = CleanupStrategies(given, True)

    given.clear()

    assert strategies.in_full_snapshot()


@pytest.mark.parametrize(
    "strategies",
    [
        None,
        5,
        {0: CleanupStrategies.EMPTY_STRATEGY},
        {Strategies.INCREMENTAL_CLEANUP: None},
        {Strategies.INCREMENTAL_CLEANUP: CleanupStrategies.EMPTY_STRATEGY},
        {Strategies.ROCKSDB_COMPACTION_FILTER: IncrementalCleanupStrategy(5, False)},
    ],
    ids=repr,
)
def test_strategies_must_map_to_their_own_settings(strategies):
    """Strategies that are no dict, or mixed up, are refused."""
    with pytest.raises(DeclarationTypeError, match="strategies must"):
        CleanupStrategies(strategies, True)


def test_background_must_be_a_bool():
    """Whether cleanup runs in background is yes or no."""
    with pytest.raises(DeclarationTypeError, match="is_cleanup_in_background"):
        CleanupStrategies({}, None)  # type: ignore[arg-type]
