# SPDX-License-Identifier: Apache-2.0
"""The bytes of values and of states of upserts."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Instant, Row
from pyflinklike.errors import CorruptStateError, NullKeyError, StateValueError, UpsertError
from pyflinklike.upsert import Consolidating, FinalizedValue, ProvisionalValue, Tombstone
from pyflinklike.upsert.upsert_values import decode_state, encode_state, size_of
from pyflinklike.upsert.value_codec import (
    decode_from,
    decode_value,
    encode_upsert_key,
    encode_value,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.datetimes()
    | st.dates()
    | st.timedeltas(dt.timedelta(-9), dt.timedelta(9))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 3), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Row(a=pair[0], b=pair[1]))
    ),
    max_leaves=8,
)


def kinds(value):
    """The value with the type of each part, so that 1 and True differ."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [kinds(item) for item in value]
    return type(value).__name__, value


# The bytes of values


@given(VALUES)
def test_a_value_is_read_back_as_it_was(value):
    """With the types of all its parts, and also with something behind it."""
    data = encode_value(value)

    assert kinds(value) == kinds(decode_value(data))
    assert (len(data) + 1, kinds(value)) == (
        decode_from(b"x" + data + encode_value(None), 1)[1],
        kinds(decode_from(b"x" + data, 1)[0]),
    )


@given(VALUES, VALUES)
def test_different_values_are_different_bytes(one, other):
    """Else a sketch would take one for the other."""
    assert (kinds(one) == kinds(other)) == (encode_value(one) == encode_value(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (0.0, -0.0),
        (math.nan, -math.nan),
        (Decimal("1.10"), Decimal("1.1")),
        (bytearray(b"x"), b"x"),
    ],
    ids=str,
)
def test_equal_values_are_equal_bytes(one, other):
    """Whatever order or sign they were made with."""
    assert encode_value(one) == encode_value(other)


@pytest.mark.parametrize(
    "value", [Instant(5, 6), UpsertError("x"), NullKeyError("y"), dt.time(1, 2, 3), Decimal("2.5")]
)
def test_rarer_values_are_read_back(value):
    """Instants and errors are values, too."""
    assert value == decode_value(encode_value((value,)))[0]


@pytest.mark.parametrize("value", [object(), {1, 2}, [object()], {"a": {1}}, 1j])
def test_a_value_that_has_no_bytes_is_refused(value):
    """With a word on what is taken."""
    with pytest.raises(StateValueError, match="convert it"):
        encode_value(value)


def test_a_value_that_contains_itself_is_refused():
    """Instead of recursing to the end."""
    value = []
    value.append(value)

    with pytest.raises(StateValueError, match="contains itself"):
        encode_value(value)


def test_a_key_is_never_none():
    """It is a TypeError, as everywhere."""
    with pytest.raises(TypeError, match="key must not be None"):
        encode_upsert_key(None)


@pytest.mark.parametrize("data", [b"", b"\x05\x15\x09\x00", b"\xff", encode_value(1) + b"x"])
def test_damaged_bytes_are_told(data):
    """Not read as something else."""
    with pytest.raises(CorruptStateError):
        decode_value(data)


# The bytes of states


STATES = (
    st.builds(FinalizedValue, VALUES.filter(lambda v: v is not None), st.none() | SCALARS)
    | st.builds(Tombstone, st.none() | SCALARS)
    | st.builds(
        ProvisionalValue,
        st.none() | st.tuples(SCALARS, SCALARS),
        st.tuples(SCALARS, st.integers(), SCALARS),
    )
)


@given(STATES)
def test_a_state_is_read_back_as_it_was(state):
    """Each kind has bytes of its own, which are its size."""
    data = encode_state(state)

    assert state == decode_state(data)
    assert len(data) == size_of(data)


def test_only_states_have_the_bytes_of_one():
    """A bare value is told to be wrapped."""
    with pytest.raises(StateValueError, match="wrap a value"):
        encode_state("v")


def test_a_sketch_counts_what_it_will_be():
    """So that nothing changes when it becomes a value."""
    sketch = Consolidating()
    sketch.merge_update("value", 1)
    sketch.merge_update("other, longer value", 1)
    sketch.merge_update("other, longer value", -1)

    assert sketch == decode_state(encode_state(sketch))
    assert len(encode_state(sketch.ensure_decoded())) == size_of(encode_state(sketch))


@pytest.mark.parametrize("data", [b"", b"C", b"?abc", b"F", b"f\x15"])
def test_damaged_states_are_told(data):
    """Not read as something else."""
    with pytest.raises(CorruptStateError):
        decode_state(data)
