# SPDX-License-Identifier: Apache-2.0
"""Keys as bytes: one key, one encoding; the order of the bytes is that of the keys."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.testing import strategies
from pyflinklike.types.key_codec import MAX_INT, AnyKeyTypeInfo, decode_key, encode_key

ORDERED = {
    "int": st.integers(),
    "wide int": st.integers(-(2**2039), 2**2039),
    "float": st.floats(allow_nan=False),
    "str": st.text(st.characters(exclude_categories=["Cs"])),
    "bytes": st.binary(),
    "bool": st.booleans(),
    "date": st.dates(),
    "time": st.times(),
    "datetime": st.datetimes(),
    "instant": st.datetimes(
        dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=st.timezones()
    ),
    "tuple": st.lists(st.tuples(st.text("\x00ab"), st.integers())).map(tuple),
}


@given(strategies.keys())
def test_a_key_is_decoded_to_itself(key):
    """Equal, and of the same type."""
    decoded = decode_key(encode_key(key))

    assert (key, type(key)) == (decoded, type(decoded))


@given(strategies.keys(), strategies.keys())
def test_different_keys_have_different_bytes(one, other):
    """Keys of equal bytes are equal."""
    assert (one == other and type(one) is type(other)) or encode_key(one) != encode_key(other)


@pytest.mark.parametrize("kind", ORDERED)
@given(data=st.data())
def test_the_order_of_the_bytes_is_that_of_the_keys(kind, data):
    """Within one type, as unsigned bytes."""
    one, other = data.draw(ORDERED[kind]), data.draw(ORDERED[kind])

    assert (one < other) == (encode_key(one) < encode_key(other))


@pytest.mark.parametrize(
    "number", [0, 1, -1, 255, 256, -256, -257, 2**63, -(2**63), 2**64, -(2**64)]
)
def test_neighbouring_ints_are_in_order(number):
    """Where the number of bytes changes, too."""
    assert encode_key(number - 1) < encode_key(number) < encode_key(number + 1)


@pytest.mark.parametrize("key", [1, (1, "a"), ("a", None), ()])
def test_a_tuple_is_not_its_element(key):
    """Nor a longer tuple."""
    assert 3 == len({encode_key(key), encode_key((key,)), encode_key((key, None))})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal(100), Decimal("1E+2")),
        (Decimal(0), Decimal("-0.00")),
        (
            dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc),
            dt.datetime(2024, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        ),
    ],
)
def test_equal_keys_have_one_encoding(one, other):
    """However they are written."""
    assert encode_key(one) == encode_key(other)


def test_every_nan_is_one_key():
    """Whatever its bits."""
    assert encode_key(math.nan) == encode_key(-math.nan)


def test_a_long_decimal_keeps_all_its_digits():
    """More than the precision of the current decimal context."""
    key = Decimal("1." + "0" * 40 + "1")

    assert key == decode_key(encode_key(key))


def test_a_subclass_of_int_is_an_int():
    """As IntEnum's members are."""

    class Seven(int):
        pass

    assert encode_key(7) == encode_key(Seven(7))


@pytest.mark.parametrize("key", [[1], {"a": 1}, object(), ([],), 1j, dt.timedelta(1)])
def test_what_cannot_be_a_key_is_refused(key):
    """The message names the remedy."""
    with pytest.raises(StateValueError, match="PICKLED_BYTE_ARRAY"):
        encode_key(key)


def test_a_lone_surrogate_is_refused():
    """UTF-8 cannot write it."""
    with pytest.raises(StateValueError, match="surrogates"):
        encode_key("\ud800")


@pytest.mark.parametrize("sign", [1, -1])
def test_the_widest_int_is_a_key_and_the_next_one_is_none(sign):
    """Also where a harness takes any key: when it is frozen, and not at the snapshot."""
    widest = sign * MAX_INT
    key_type = AnyKeyTypeInfo()
    assert widest == decode_key(encode_key(widest)) == key_type.freeze(widest)
    with pytest.raises(StateValueError, match="255 bytes"):
        encode_key(widest + sign)
    for key in (widest + sign, (widest + sign,)):
        with pytest.raises(StateValueError, match="255 bytes"):
            key_type.freeze(key)


def nested(depth):
    """A key of tuples within tuples."""
    key = 1
    for _ in range(depth):
        key = (key,)
    return key


def test_a_key_that_is_nested_too_deeply_is_refused_when_it_is_written():
    """What is written can be read, however much of the stack is used already."""

    def deep_down(frames, what):
        return what() if not frames else deep_down(frames - 1, what)

    key = nested(50)
    assert key == deep_down(400, lambda: decode_key(encode_key(key)))
    for depth in (51, 5_000):
        with pytest.raises(StateValueError, match="nested at most 50 deep"):
            encode_key(nested(depth))


@pytest.mark.parametrize("depth", [51, 5_000, 1_000_000])
def test_stored_tuples_that_are_nested_too_deeply_are_refused(depth):
    """They are damaged, and no error of Python's."""
    with pytest.raises(CorruptStateError):
        decode_key(b"\x05" * depth + b"\x00" * depth)


@given(strategies.keys(), st.data())
def test_a_key_cut_short_is_refused(key, data):
    """Or is another whole key, never half of one."""
    encoded = encode_key(key)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    try:
        other = decode_key(cut)
    except CorruptStateError:
        return

    assert (True, cut) == (other != key, encode_key(other))


@given(strategies.keys())
def test_bytes_left_over_are_refused(key):
    """A key ends where its value ends."""
    with pytest.raises(CorruptStateError):
        decode_key(encode_key(key) + b"\x01")


@given(st.binary())
def test_any_other_bytes_are_refused_or_a_key(data):
    """Nothing but `CorruptStateError` comes out."""
    try:
        key = decode_key(data)
    except CorruptStateError:
        return

    assert type(key) in {str, int, float, bool, bytes, tuple, Decimal, type(None)} | {
        dt.date,
        dt.time,
        dt.datetime,
    }


@pytest.mark.parametrize("hours", [-23, -1, 0, 1, 23])
@pytest.mark.parametrize("edge", [dt.datetime.min, dt.datetime.max])
def test_an_instant_that_is_encoded_is_decoded(edge, hours):
    """A local time with an offset can be before the first year in UTC, or after the last one."""
    key = edge.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours)))
    if (hours > 0 and edge == dt.datetime.min) or (hours < 0 and edge == dt.datetime.max):
        with pytest.raises(StateValueError, match="in UTC"):
            encode_key(key)
    else:
        assert key == decode_key(encode_key(key))


def test_a_signalling_nan_is_no_key():
    """It has no hash, and equals nothing without an error."""
    with pytest.raises(StateValueError, match="sNaN"):
        encode_key(Decimal("sNaN"))
