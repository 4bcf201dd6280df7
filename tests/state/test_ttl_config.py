# SPDX-License-Identifier: Apache-2.0
import pickle
from datetime import timedelta

import pytest

from pyflinklike.clock import Duration, Time
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.ttl_config import StateTtlConfig

UpdateType = StateTtlConfig.UpdateType
StateVisibility = StateTtlConfig.StateVisibility
TtlTimeCharacteristic = StateTtlConfig.TtlTimeCharacteristic
CleanupStrategies = StateTtlConfig.CleanupStrategies
Strategies = CleanupStrategies.Strategies
IncrementalCleanupStrategy = CleanupStrategies.IncrementalCleanupStrategy
RocksdbCompactFilterCleanupStrategy = CleanupStrategies.RocksdbCompactFilterCleanupStrategy

NOT_A_TTL = [None, True, 1.5, "1 h", [1], Time(1.5)]
TOO_SHORT = [
    0,
    -5,
    Time(0),
    Time(-5),
    Duration.of_millis(0),
    timedelta(0),
    timedelta(hours=-1),
    timedelta(microseconds=999),
    Duration.of_nanos(999_999),
]


def hour() -> StateTtlConfig.Builder:
    """A builder of a TTL of one hour."""
    return StateTtlConfig.new_builder(Time.hours(1))


def cleanup(builder: StateTtlConfig.Builder) -> StateTtlConfig.CleanupStrategies:
    """The cleanup strategies of what a builder builds."""
    return builder.build().get_cleanup_strategies()


@pytest.mark.parametrize(
    ("expected", "enum"),
    [
        ({"Disabled": 0, "OnCreateAndWrite": 1, "OnReadAndWrite": 2}, UpdateType),
        ({"ReturnExpiredIfNotCleanedUp": 0, "NeverReturnExpired": 1}, StateVisibility),
        ({"ProcessingTime": 0, "EventTime": 1}, TtlTimeCharacteristic),
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


@pytest.mark.parametrize(
    "ttl",
    [Time.hours(1), Duration.of_hours(1), timedelta(hours=1), 3_600_000],
    ids=lambda ttl: type(ttl).__name__,
)
def test_builder_takes_every_kind_of_length(ttl):
    """Time, Duration, timedelta and an int of ms all give the same configuration."""
    assert hour().build() == StateTtlConfig.new_builder(ttl).build()


@pytest.mark.parametrize(
    "ttl",
    [Time.hours(1), Duration.of_hours(1), timedelta(hours=1), 3_600_000],
    ids=lambda ttl: type(ttl).__name__,
)
def test_constructor_takes_every_kind_of_length(ttl):
    """The keyword ttl is all the constructor needs."""
    assert hour().build() == StateTtlConfig(ttl=ttl)


def test_get_ttl_is_a_time():
    """get_ttl gives a Time whatever was given, as PyFlink's does."""
    assert Time.hours(1) == StateTtlConfig(ttl=timedelta(hours=1)).get_ttl()


def test_ttl_ms_is_an_int():
    """ttl_ms gives the ms that the runtime reckons with."""
    assert 3_600_000 == StateTtlConfig(ttl=timedelta(hours=1)).ttl_ms


def test_ttl_is_rounded_down_to_milliseconds():
    """What a TTL has beyond whole ms is dropped."""
    assert 1 == StateTtlConfig(ttl=timedelta(microseconds=1_999)).ttl_ms


def test_shortest_ttl():
    """A TTL of 1 ms is the shortest there is."""
    assert 1 == StateTtlConfig(ttl=1).ttl_ms


@pytest.mark.parametrize("ttl", NOT_A_TTL, ids=repr)
def test_new_builder_refuses_other_kinds(ttl):
    """What is no length of time is refused by new_builder, not by build."""
    with pytest.raises(DeclarationTypeError):
        StateTtlConfig.new_builder(ttl)


@pytest.mark.parametrize("ttl", NOT_A_TTL, ids=repr)
def test_constructor_refuses_other_kinds(ttl):
    """What is no length of time is refused by the constructor."""
    with pytest.raises(DeclarationTypeError):
        StateTtlConfig(ttl=ttl)


@pytest.mark.parametrize("ttl", NOT_A_TTL, ids=repr)
def test_set_ttl_refuses_other_kinds(ttl):
    """What is no length of time is refused by set_ttl, not by build."""
    builder = hour()

    with pytest.raises(DeclarationTypeError):
        builder.set_ttl(ttl)


@pytest.mark.parametrize("ttl", TOO_SHORT, ids=repr)
def test_new_builder_refuses_too_short(ttl):
    """A TTL below 1 ms is refused by new_builder, not by build."""
    with pytest.raises(DeclarationValueError, match="at least 1 ms"):
        StateTtlConfig.new_builder(ttl)


@pytest.mark.parametrize("ttl", TOO_SHORT, ids=repr)
def test_constructor_refuses_too_short(ttl):
    """A TTL below 1 ms is refused by the constructor."""
    with pytest.raises(DeclarationValueError, match="at least 1 ms"):
        StateTtlConfig(ttl=ttl)


@pytest.mark.parametrize("ttl", TOO_SHORT, ids=repr)
def test_set_ttl_refuses_too_short(ttl):
    """A TTL below 1 ms is refused by set_ttl, not by build."""
    builder = hour()

    with pytest.raises(DeclarationValueError, match="at least 1 ms"):
        builder.set_ttl(ttl)


def test_refused_ttl_leaves_the_builder():
    """A builder that refused a TTL still has the one before."""
    builder = hour()

    with pytest.raises(DeclarationValueError):
        builder.set_ttl(0)

    assert hour().build() == builder.build()


def test_constructor_needs_a_ttl():
    """Without a TTL the message tells what to write."""
    with pytest.raises(DeclarationTypeError, match=r"StateTtlConfig\(ttl=timedelta"):
        StateTtlConfig()


def test_constructor_takes_pyflinks_positions():
    """The five arguments come in PyFlink's order."""
    config = StateTtlConfig(
        UpdateType.OnReadAndWrite,
        StateVisibility.ReturnExpiredIfNotCleanedUp,
        TtlTimeCharacteristic.EventTime,
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
    "name",
    ["update_type", "state_visibility", "ttl_time_characteristic", "cleanup_strategies"],
)
@pytest.mark.parametrize("value", [None, 1, "OnReadAndWrite", StateTtlConfig])
def test_constructor_refuses_other_settings(name, value):
    """Each setting must be of its own kind, and the message names it."""
    with pytest.raises(DeclarationTypeError, match=f"^{name} must be"):
        StateTtlConfig(ttl=1, **{name: value})


def test_builder_is_a_class_of_the_configuration():
    """The builder can be made by its own name, as in PyFlink."""
    assert hour().build() == StateTtlConfig.Builder(Time.hours(1)).build()


def test_default_update_type():
    """Writes renew the stamp by default."""
    assert UpdateType.OnCreateAndWrite is hour().build().get_update_type()


def test_default_state_visibility():
    """Expired entries are hidden by default."""
    assert StateVisibility.NeverReturnExpired is hour().build().get_state_visibility()


def test_default_ttl_time_characteristic():
    """The processing time decides by default."""
    expected = TtlTimeCharacteristic.ProcessingTime

    assert expected is hour().build().get_ttl_time_characteristic()


def test_default_cleanup_strategies():
    """Nothing is set and the background is on by default."""
    assert CleanupStrategies({}, True) == cleanup(hour())


@pytest.mark.parametrize(
    ("setter", "arguments"),
    [
        ("set_update_type", (UpdateType.Disabled,)),
        ("update_ttl_on_create_and_write", ()),
        ("update_ttl_on_read_and_write", ()),
        ("set_state_visibility", (StateVisibility.ReturnExpiredIfNotCleanedUp,)),
        ("return_expired_if_not_cleaned_up", ()),
        ("never_return_expired", ()),
        ("set_ttl_time_characteristic", (TtlTimeCharacteristic.EventTime,)),
        ("use_processing_time", ()),
        ("use_event_time", ()),
        ("cleanup_full_snapshot", ()),
        ("cleanup_incrementally", (10, True)),
        ("cleanup_in_rocksdb_compact_filter", (1_000,)),
        ("cleanup_in_rocksdb_compact_filter", (1_000, Duration.of_days(1))),
        ("disable_cleanup_in_background", ()),
        ("set_ttl", (Time.days(1),)),
    ],
)
def test_builder_methods_return_the_builder(setter, arguments):
    """Every method of the builder changes it and returns it, so both ways work."""
    builder = hour()

    assert builder is getattr(builder, setter)(*arguments)


@pytest.mark.parametrize("update_type", UpdateType)
def test_set_update_type(update_type):
    """set_update_type sets any of the update types."""
    assert update_type is hour().set_update_type(update_type).build().get_update_type()


def test_update_ttl_on_read_and_write():
    """update_ttl_on_read_and_write sets OnReadAndWrite."""
    builder = hour().update_ttl_on_read_and_write()

    assert UpdateType.OnReadAndWrite is builder.build().get_update_type()


def test_update_ttl_on_create_and_write():
    """update_ttl_on_create_and_write sets it back."""
    builder = hour().update_ttl_on_read_and_write().update_ttl_on_create_and_write()

    assert UpdateType.OnCreateAndWrite is builder.build().get_update_type()


@pytest.mark.parametrize("visibility", StateVisibility)
def test_set_state_visibility(visibility):
    """set_state_visibility sets any of the visibilities."""
    assert visibility is hour().set_state_visibility(visibility).build().get_state_visibility()


def test_return_expired_if_not_cleaned_up():
    """return_expired_if_not_cleaned_up shows expired entries."""
    builder = hour().return_expired_if_not_cleaned_up()

    assert StateVisibility.ReturnExpiredIfNotCleanedUp is builder.build().get_state_visibility()


def test_never_return_expired():
    """never_return_expired hides them again."""
    builder = hour().return_expired_if_not_cleaned_up().never_return_expired()

    assert StateVisibility.NeverReturnExpired is builder.build().get_state_visibility()


@pytest.mark.parametrize("characteristic", TtlTimeCharacteristic)
def test_set_ttl_time_characteristic(characteristic):
    """set_ttl_time_characteristic sets either clock."""
    builder = hour().set_ttl_time_characteristic(characteristic)

    assert characteristic is builder.build().get_ttl_time_characteristic()


def test_use_event_time():
    """use_event_time lets the watermark decide."""
    builder = hour().use_event_time()

    assert TtlTimeCharacteristic.EventTime is builder.build().get_ttl_time_characteristic()


def test_use_processing_time():
    """use_processing_time lets the processing time decide again."""
    builder = hour().use_event_time().use_processing_time()

    assert TtlTimeCharacteristic.ProcessingTime is builder.build().get_ttl_time_characteristic()


def test_set_ttl():
    """set_ttl replaces the TTL."""
    assert Time(5) == hour().set_ttl(timedelta(milliseconds=5)).build().get_ttl()


@pytest.mark.parametrize(
    "setter", ["set_update_type", "set_state_visibility", "set_ttl_time_characteristic"]
)
@pytest.mark.parametrize("value", [None, 1, "Disabled", Strategies.INCREMENTAL_CLEANUP])
def test_builder_refuses_other_settings(setter, value):
    """A setting of the wrong kind is refused by its setter, not by build."""
    builder = hour()

    with pytest.raises(DeclarationTypeError):
        getattr(builder, setter)(value)


def test_built_configuration_is_left_alone():
    """A builder that goes on does not change what it has built."""
    builder = hour()
    config = builder.build()

    builder.update_ttl_on_read_and_write()

    assert hour().build() == config


def test_builder_copies_a_configuration():
    """new_builder of a configuration starts from all of it."""
    config = hour().use_event_time().cleanup_incrementally(3, True).build()

    assert config == StateTtlConfig.new_builder(config).build()


def test_copy_leaves_the_original():
    """Changing a copy does not change what it was copied from."""
    config = hour().build()

    StateTtlConfig.new_builder(config).cleanup_full_snapshot().set_ttl(1)

    assert hour().build() == config


@pytest.mark.parametrize(
    ("expected", "update_type"),
    [
        (False, UpdateType.Disabled),
        (True, UpdateType.OnCreateAndWrite),
        (True, UpdateType.OnReadAndWrite),
    ],
)
def test_is_enabled(expected, update_type):
    """TTL is on unless the update type is Disabled."""
    assert expected is StateTtlConfig(update_type, ttl=1).is_enabled()


def test_disabled_is_not_enabled():
    """DISABLED is a configuration that switches TTL off."""
    assert not StateTtlConfig.DISABLED.is_enabled()


def test_repr_is_pyflinks():
    """The repr is PyFlink's to the letter."""
    expected = (
        "StateTtlConfig<update_type=UpdateType.OnCreateAndWrite, "
        "state_visibility=StateVisibility.NeverReturnExpired,"
        "ttl_time_characteristic =TtlTimeCharacteristic.ProcessingTime,"
        "ttl=86400000 ms>"
    )

    assert expected == repr(StateTtlConfig.new_builder(Time.days(1)).build())


def test_equal_configurations_have_one_hash():
    """Configurations set in another order are equal and hash equal."""
    one = hour().cleanup_full_snapshot().cleanup_incrementally(3, True).build()
    other = hour().cleanup_incrementally(3, True).cleanup_full_snapshot().build()

    assert {one} == {one, other}


@pytest.mark.parametrize(
    "other",
    [
        hour().set_ttl(1),
        hour().update_ttl_on_read_and_write(),
        hour().return_expired_if_not_cleaned_up(),
        hour().use_event_time(),
        hour().cleanup_full_snapshot(),
        hour().cleanup_incrementally(5, False),
        hour().cleanup_in_rocksdb_compact_filter(1_000),
        hour().disable_cleanup_in_background(),
    ],
)
def test_every_setting_counts_in_comparing(other):
    """Configurations that differ in one setting are not equal."""
    assert hour().build() != other.build()


def test_configuration_is_frozen():
    """A configuration cannot be changed."""
    config = hour().build()

    with pytest.raises(AttributeError):
        config._ttl = Time(1)  # type: ignore[misc]


def test_configuration_survives_pickling():
    """A configuration goes to the workers and stays equal."""
    config = (
        hour()
        .cleanup_full_snapshot()
        .cleanup_incrementally(3, True)
        .cleanup_in_rocksdb_compact_filter(7, Duration.of_days(1))
        .build()
    )

    assert config == pickle.loads(pickle.dumps(config))


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
