# SPDX-License-Identifier: Apache-2.0
"""`StateTtlConfig` and its builder: settings, defaults, comparing, copying and pickling."""

import pickle
from datetime import timedelta

import pytest

from pyflinklike._clock import Duration, Time
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.state.ttl_config import StateTtlConfig

UpdateType = StateTtlConfig.UpdateType
StateVisibility = StateTtlConfig.StateVisibility
TtlTimeCharacteristic = StateTtlConfig.TtlTimeCharacteristic
CleanupStrategies = StateTtlConfig.CleanupStrategies
Strategies = CleanupStrategies.Strategies


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
