# SPDX-License-Identifier: Apache-2.0
"""Elements of jobs in bytes."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import OutputError
from pyflinklike.spark._wire.stage_records import (
    PASSED_ON,
    Address,
    StageRecord,
    divide_payloads,
    dump,
    pass_on,
    unwrap,
    wrap,
    wrap_to_pass,
)

RECORDS = [("a", {"n": [1, 2]}, 5), ("b", None, None)]


@given(st.integers(0, 2**31 - 1), st.integers(0, 255), st.booleans())
def test_an_address_is_read_without_opening_the_parcel(node, position, is_early):
    """Whatever is in it."""
    parcel = StageRecord(Address(node, position, is_early), b"never opened")

    assert StageRecord.from_bytes(parcel.to_bytes()) == parcel


def test_records_come_back():
    """Values, None and times."""
    assert StageRecord(Address(1, 0), dump(RECORDS)).records() == RECORDS


def test_one_object_in_two_records_is_two_behind_it():
    """As if each had been sent by itself."""
    shared = [1]

    one, other = StageRecord(Address(1, 0), dump([shared, shared])).records()

    assert (one, other) == ([1], [1])
    assert one is not other


def test_an_element_that_holds_itself_comes_back():
    """The pickle then has a memo."""
    circle = []
    circle.append(circle)

    (back,) = StageRecord(Address(1, 0), dump([circle])).records()

    assert back[0] is back


def test_an_element_that_does_not_pickle_is_shown():
    """Not all the others with it."""
    with pytest.raises(OutputError, match=r"goes to another task, got .*lock"):
        dump(["fine", threading.Lock()])


def test_what_passes_is_told_from_what_is_for_the_operator():
    """And goes on as it is."""
    own, other = wrap(b"parcel"), wrap_to_pass(b"parcel")

    through, kept = divide_payloads([own, other])

    assert (through, kept) == ([other], [own])
    assert unwrap(own) == unwrap(other) == b"parcel"
    assert pass_on(through) == [(PASSED_ON, other, None, None)]
