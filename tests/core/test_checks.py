# SPDX-License-Identifier: Apache-2.0
"""What counts as an int, an int of 64 bits, and a number, for every argument that must be one."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from pyflinklike._checks import is_int, is_int64, is_number


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize("value", [0, -1, 2**200, Level.LOW])
def test_an_int_of_any_size_or_subclass_is_an_int_and_a_number(value: int):
    """Size does not matter, and a subclass that is no bool is an int."""
    assert is_int(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_a_bool_is_neither(value: object):
    """`True` is never taken for 1."""
    assert (is_int(value), is_int64(value), is_number(value)) == (False, False, False)


@pytest.mark.parametrize("value", [np.int64(1), "1", None, Decimal(1), Fraction(1), 1 + 0j])
def test_what_merely_behaves_as_an_int_is_neither(value: object):
    """A numpy int, a text and Python's other numbers are refused."""
    assert (is_int(value), is_int64(value), is_number(value)) == (False, False, False)


@pytest.mark.parametrize("value", [1.0, inf, nan])
def test_a_float_is_a_number_only(value: float):
    """Not even a whole one is an int."""
    assert (is_int(value), is_int64(value), is_number(value)) == (False, False, True)


@pytest.mark.parametrize(
    ("value", "fits"),
    [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)],
)
def test_64_bits_hold_both_ends_of_their_range(value: int, fits: bool):
    """The range is that of Java's long."""
    assert is_int64(value) is fits
