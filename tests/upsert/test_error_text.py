# SPDX-License-Identifier: Apache-2.0
"""The errors of upserts as text, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import (
    KeyDecodeError,
    NullKeyError,
    OrderKeyError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.upsert.value_codec import decode_value, encode_value, error_of, text_of

KINDS = [UpsertError, KeyDecodeError, ValueDecodeError, NullKeyError, OrderKeyError]


class OfAUser(ValueDecodeError):
    """A class that only one program has."""


@given(st.sampled_from(KINDS), st.text())
def test_an_error_is_the_same_after_its_text_and_its_bytes(kind, message):
    """Its class and its message, whatever is in that."""
    for found in (error_of(text_of(kind(message))), decode_value(encode_value(kind(message)))):
        assert type(found) is kind
        assert message == str(found)


@pytest.mark.parametrize("text", ["", "no colon", "KeyError: 'a'", "Strange: thing", 7])
def test_any_other_text_is_the_message_of_a_value_that_cannot_be_decoded(text):
    """Whoever writes an `error` field is free in its words."""
    found = error_of(text)

    assert type(found) is ValueDecodeError
    assert str(text) == str(found)


def test_an_error_of_a_users_class_is_stored_as_the_one_that_all_programs_have():
    """So that another program can read it; its text names the class."""
    error = OfAUser("x")

    assert type(decode_value(encode_value(error))) is UpsertError
    assert text_of(error) == "OfAUser: x"
