# SPDX-License-Identifier: Apache-2.0
"""`StateTtlConfig` and its builder: settings, defaults, lengths, cleanup strategies, refusals."""

import pickle
from datetime import timedelta

import pytest

from pyflinklike._clock import Duration, Time
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.ttl_config import StateTtlConfig

UpdateType = StateTtlConfig.UpdateType
Visibility = StateTtlConfig.StateVisibility
Characteristic = StateTtlConfig.TtlTimeCharacteristic
CleanupStrategies = StateTtlConfig.CleanupStrategies
Strategies = CleanupStrategies.Strategies
Incremental = CleanupStrategies.IncrementalCleanupStrategy
CompactFilter = CleanupStrategies.RocksdbCompactFilterCleanupStrategy
EMPTY = CleanupStrategies.EMPTY_STRATEGY


def hour() -> StateTtlConfig.Builder:
    """A builder of a TTL of one hour."""
    return StateTtlConfig.new_builder(Time.hours(1))


def settings_of(config: StateTtlConfig) -> tuple:
    """All that a configuration can be asked for."""
    cleanup = config.get_cleanup_strategies()
    return (
        config.get_update_type(),
        config.get_state_visibility(),
        config.get_ttl_time_characteristic(),
        config.get_ttl(),
        cleanup.is_cleanup_in_background(),
        cleanup.in_full_snapshot(),
        cleanup.get_incremental_cleanup_strategy(),
        cleanup.in_rocksdb_compact_filter(),
        cleanup.get_rocksdb_compact_filter_cleanup_strategy(),
    )


DEFAULTS = (
    UpdateType.OnCreateAndWrite,
    Visibility.NeverReturnExpired,
    Characteristic.ProcessingTime,
    Time.hours(1),
    True,
    False,
    Incremental(5, False),
    True,
    CompactFilter(1_000, Duration.of_days(30)),
)


@pytest.mark.parametrize(
    ("expected", "enum"),
    [
        ({"Disabled": 0, "OnCreateAndWrite": 1, "OnReadAndWrite": 2}, UpdateType),
        ({"ReturnExpiredIfNotCleanedUp": 0, "NeverReturnExpired": 1}, Visibility),
        ({"ProcessingTime": 0, "EventTime": 1}, Characteristic),
        (
            {
                "FULL_STATE_SCAN_SNAPSHOT": 0,
                "INCREMENTAL_CLEANUP": 1,
                "ROCKSDB_COMPACTION_FILTER": 2,
            },
            Strategies,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_enums_have_pyflinks_members(expected, enum):
    """Members and values are PyFlink's; EventTime is ours."""
    assert expected == {member.name: member.value for member in enum}


def test_defaults():
    """Writes renew, expired entries are hidden, processing time decides, the background is on."""
    assert DEFAULTS == settings_of(hour().build())


def test_constructor_takes_pyflinks_positions():
    """The five arguments come in PyFlink's order."""
    config = StateTtlConfig(
        UpdateType.OnReadAndWrite,
        Visibility.ReturnExpiredIfNotCleanedUp,
        Characteristic.EventTime,
        Time(7),
        CleanupStrategies({}, False),
    )
    expected = (
        StateTtlConfig.new_builder(7)
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_event_time()
        .disable_cleanup_in_background()
        .build()
    )
    assert expected == config


@pytest.mark.parametrize(
    ("calls", "changed"),
    [
        *(([("set_update_type", each)], {0: each}) for each in UpdateType),
        ([("update_ttl_on_read_and_write",)], {0: UpdateType.OnReadAndWrite}),
        ([("update_ttl_on_read_and_write",), ("update_ttl_on_create_and_write",)], {}),
        *(([("set_state_visibility", each)], {1: each}) for each in Visibility),
        ([("return_expired_if_not_cleaned_up",)], {1: Visibility.ReturnExpiredIfNotCleanedUp}),
        ([("return_expired_if_not_cleaned_up",), ("never_return_expired",)], {}),
        *(([("set_ttl_time_characteristic", each)], {2: each}) for each in Characteristic),
        ([("use_event_time",)], {2: Characteristic.EventTime}),
        ([("use_event_time",), ("use_processing_time",)], {}),
        ([("set_ttl", timedelta(milliseconds=5))], {3: Time(5)}),
        ([("disable_cleanup_in_background",)], {4: False, 6: None, 7: False, 8: None}),
        ([("cleanup_full_snapshot",)], {5: True}),
        (
            [("disable_cleanup_in_background",), ("cleanup_full_snapshot",)],
            {4: False, 5: True, 6: None, 7: False, 8: None},
        ),
        ([("cleanup_incrementally", 10, True)], {6: Incremental(10, True)}),
        (
            [("cleanup_incrementally", 10, True), ("cleanup_incrementally", 20, False)],
            {6: Incremental(20, False)},
        ),
        # Only defaults are disabled.
        (
            [("cleanup_incrementally", 10, True), ("disable_cleanup_in_background",)],
            {4: False, 6: Incremental(10, True), 7: False, 8: None},
        ),
        (
            [("disable_cleanup_in_background",), ("cleanup_in_rocksdb_compact_filter", 1)],
            {4: False, 6: None, 8: CompactFilter(1)},
        ),
        (
            [("cleanup_in_rocksdb_compact_filter", 7, Duration.of_hours(2))],
            {8: CompactFilter(7, Duration.of_hours(2))},
        ),
    ],
    ids=str,
)
def test_a_method_of_the_builder_changes_its_setting_and_returns_the_builder(calls, changed):
    """And no other setting, so configurations that differ in one are not equal."""
    builder = hour()
    for method, *arguments in calls:
        assert builder is getattr(builder, method)(*arguments)
    expected = tuple(changed.get(at, each) for at, each in enumerate(DEFAULTS))
    assert expected == settings_of(builder.build())
    assert (expected == DEFAULTS) == (hour().build() == builder.build())


def test_strategies_have_attributes():
    """PyFlink's getters, on the base that PyFlink gives all strategies."""
    incremental, compaction = Incremental(10, True), CompactFilter(7)
    assert (10, True, 7) == (
        incremental.get_cleanup_size(),
        incremental.run_cleanup_for_every_record(),
        compaction.get_query_time_after_num_entries(),
    )
    each = [incremental, compaction, EMPTY, CleanupStrategies.EmptyCleanupStrategy()]
    assert all(isinstance(one, CleanupStrategies.CleanupStrategy) for one in each)
    assert EMPTY == each[-1]


def test_built_configurations_and_copied_strategies_are_left_alone():
    """A builder that goes on, or a dict that is changed, does not change what was built of it."""
    builder = hour()
    config = builder.build()
    builder.update_ttl_on_read_and_write()
    StateTtlConfig.new_builder(config).cleanup_full_snapshot().set_ttl(1)
    given = {Strategies.FULL_STATE_SCAN_SNAPSHOT: EMPTY}
    strategies = CleanupStrategies(given, True)
    given.clear()
    assert (hour().build(), True) == (config, strategies.in_full_snapshot())


def test_a_configuration_is_a_value():
    """It is copied by a builder, pickled, and equal whichever setting came first."""
    config = hour().cleanup_full_snapshot().cleanup_incrementally(3, True).build()
    same = [
        StateTtlConfig.new_builder(config).build(),
        pickle.loads(pickle.dumps(config)),
        hour().cleanup_incrementally(3, True).cleanup_full_snapshot().build(),
        StateTtlConfig.Builder(Time.hours(1))
        .cleanup_incrementally(3, True)
        .cleanup_full_snapshot()
        .build(),
    ]
    assert ([config] * 4, {config}) == (same, {config, *same})
    with pytest.raises(AttributeError):
        config._ttl = Time(1)  # type: ignore[misc]


def test_is_enabled():
    """TTL is on unless the update type is Disabled; DISABLED switches it off."""
    enabled = [StateTtlConfig(each, ttl=1).is_enabled() for each in UpdateType]
    assert ([False, True, True], False) == (enabled, StateTtlConfig.DISABLED.is_enabled())


def test_repr_is_pyflinks():
    """The repr is PyFlink's to the letter."""
    expected = (
        "StateTtlConfig<update_type=UpdateType.OnCreateAndWrite, "
        "state_visibility=StateVisibility.NeverReturnExpired,"
        "ttl_time_characteristic =TtlTimeCharacteristic.ProcessingTime,"
        "ttl=86400000 ms>"
    )
    assert expected == repr(StateTtlConfig.new_builder(Time.days(1)).build())


# Lengths


WAYS = {
    "constructor": lambda ttl: StateTtlConfig(ttl=ttl),
    "new_builder": StateTtlConfig.new_builder,
    "set_ttl": lambda ttl: hour().set_ttl(ttl),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        *((each, 3_600_000) for each in (Time.hours(1), Duration.of_hours(1), 3_600_000)),
        (timedelta(hours=1), 3_600_000),
        (timedelta(microseconds=1_999), 1),  # what it has beyond whole ms is dropped
        (1, 1),
    ],
    ids=repr,
)
@ways
def test_every_kind_of_length_is_a_ttl(way, ttl, expected):
    """The runtime reckons with an int of ms; get_ttl gives a Time, as PyFlink's does."""
    made = way(ttl)
    config = made if isinstance(made, StateTtlConfig) else made.build()
    assert (expected, Time(expected)) == (config.ttl_ms, config.get_ttl())


@pytest.mark.parametrize("ttl", [None, True, 1.5, "1 h", [1], Time(1.5)], ids=repr)
@ways
def test_what_is_no_length_of_time_is_refused(way, ttl):
    """At once and not by build."""
    with pytest.raises(DeclarationTypeError):
        way(ttl)


@pytest.mark.parametrize(
    "ttl",
    [
        0,
        -5,
        Time(0),
        Duration.of_millis(0),
        timedelta(microseconds=999),
        Duration.of_nanos(999_999),
    ],
    ids=repr,
)
@ways
def test_a_ttl_below_a_millisecond_is_refused(way, ttl):
    """At once and not by build."""
    with pytest.raises(DeclarationValueError, match="at least 1 ms"):
        way(ttl)


@pytest.mark.parametrize(
    ("expected", "period"),
    [
        (Duration.of_days(30), None),
        (Duration.of_days(1), timedelta(days=1)),
        (Duration.of_days(1), Time.days(1)),
        (Duration.of_days(1), 86_400_000),
        *((Duration.of_millis(0), each) for each in (Duration.of_millis(0), timedelta(0), 0)),
        (Duration.of_nanos(500_000), timedelta(microseconds=500)),
    ],
    ids=repr,
)
def test_periodic_compaction_time_is_a_duration(expected, period):
    """Every kind of length gives a Duration; None is 30 days, zero stays zero."""
    assert expected == CompactFilter(7, period).get_periodic_compaction_time()


# Refusals


def _strategies(given, background=True):
    return lambda: CleanupStrategies(given, background)


def _made(method, *arguments):
    return lambda: getattr(hour(), method)(*arguments)


@pytest.mark.parametrize(
    ("declare", "error", "match"),
    [
        *(
            (lambda name=name, each=each: StateTtlConfig(ttl=1, **{name: each}), TypeError, name)
            for name in (
                "update_type",
                "state_visibility",
                "ttl_time_characteristic",
                "cleanup_strategies",
            )
            for each in (None, 1, "OnReadAndWrite", StateTtlConfig)
        ),
        *(
            (_made(name, each), DeclarationTypeError, None)
            for name in ("set_update_type", "set_state_visibility", "set_ttl_time_characteristic")
            for each in (None, 1, "Disabled", Strategies.INCREMENTAL_CLEANUP)
        ),
        (StateTtlConfig, DeclarationTypeError, r"StateTtlConfig\(ttl=timedelta"),
        *(
            (_made("cleanup_incrementally", each, True), DeclarationValueError, "at least 1, got")
            for each in (0, -2)
        ),
        *(
            (_made("cleanup_incrementally", each, True), DeclarationTypeError, "cleanup_size")
            for each in (None, True, 2.5, "5")
        ),
        *(
            (
                _made("cleanup_incrementally", 5, each),
                DeclarationTypeError,
                "run_cleanup_for_every_record",
            )
            for each in (None, 1, "yes")
        ),
        (_made("cleanup_incrementally", 5), TypeError, None),  # no default, as in PyFlink
        *(
            (
                _made("cleanup_in_rocksdb_compact_filter", 7, each),
                DeclarationValueError,
                "periodic_compaction_time",
            )
            for each in (Duration.of_millis(-1), timedelta(microseconds=-1), Time(-1), -1)
        ),
        *(
            (
                _made("cleanup_in_rocksdb_compact_filter", 7, each),
                DeclarationTypeError,
                "periodic_compaction_time",
            )
            for each in (True, 1.5, "30 d")
        ),
        (
            _made("cleanup_in_rocksdb_compact_filter", -1),
            DeclarationValueError,
            "query_time_after_num_entries",
        ),
        *(
            (_made("cleanup_in_rocksdb_compact_filter", each), DeclarationTypeError, None)
            for each in (None, True, 1.5, "7")
        ),
        *(
            (_strategies(each), DeclarationTypeError, "strategies must")
            for each in (
                None,
                5,
                {0: EMPTY},
                {Strategies.INCREMENTAL_CLEANUP: None},
                {Strategies.INCREMENTAL_CLEANUP: EMPTY},
                {Strategies.ROCKSDB_COMPACTION_FILTER: Incremental(5, False)},
            )
        ),
        (_strategies({}, None), DeclarationTypeError, "is_cleanup_in_background"),
    ],
)
def test_what_makes_no_sense_is_refused(declare, error, match):
    """Each setting must be of its own kind, and the message names it."""
    with pytest.raises(error, match=match):
        declare()


def test_a_refused_ttl_leaves_the_builder():
    """It still has the one before."""
    builder = hour()
    with pytest.raises(DeclarationValueError):
        builder.set_ttl(0)
    assert hour().build() == builder.build()
