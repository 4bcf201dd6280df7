# SPDX-License-Identifier: Apache-2.0
"""How long a TTL may be, and in which forms it is given."""

from datetime import timedelta

import pytest

from pyflinklike._clock import Duration, Time
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.ttl_config import StateTtlConfig

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
