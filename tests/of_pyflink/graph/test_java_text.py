# SPDX-License-Identifier: Apache-2.0
"""Elements as text: as Java writes them in files, and as `print` does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from pyflinklike.pyflink._graph.sinks import java_text, print_text
from pyflinklike.pyflink.common import Row, RowKind, Types

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
ROW = Types.ROW([Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("value", "type_info", "text"),
    [
        (None, Types.STRING(), "null"),
        (True, Types.BOOLEAN(), "true"),
        (1, Types.INT(), "1"),
        ("a b", Types.STRING(), "a b"),
        (("a", 1), PAIR, "(a,1)"),
        ((None, 1), PAIR, "(null,1)"),
        ((("a", 1), 2), Types.TUPLE([PAIR, Types.INT()]), "((a,1),2)"),
        (Row("a", 1), ROW, "+I[a, 1]"),
        (Row.of_kind(RowKind.UPDATE_AFTER, "a", None), ROW, "+U[a, null]"),
        ([1, None], Types.LIST(Types.INT()), "[1, null]"),
        ({"a": 1.5}, Types.MAP(Types.STRING(), Types.DOUBLE()), "{a=1.5}"),
        ([0.1], Types.LIST(Types.FLOAT()), "[0.1]"),
        (b"\x00\xff", Types.PRIMITIVE_ARRAY(Types.BYTE()), "[0, -1]"),
        (dt.date(2020, 1, 2), Types.SQL_DATE(), "2020-01-02"),
        (
            dt.datetime(2018, 3, 11, 3, 0, 0, 123000),
            Types.SQL_TIMESTAMP(),
            "2018-03-11 03:00:00.123",
        ),
        (dt.datetime(2018, 3, 11, 3, 0, 0), Types.SQL_TIMESTAMP(), "2018-03-11 03:00:00.0"),
        (Decimal("1.50"), Types.BIG_DEC(), "1.50"),
    ],
)
def test_a_value_has_the_text_that_java_has_for_it(value, type_info, text):
    """Whatever its type."""
    assert text == java_text(value, type_info)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e10, "1.25E10"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-1.5e-300, "-1.5E-300"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_has_the_text_that_java_has_for_it(number, text):
    """From a thousandth to ten million without an exponent."""
    assert text == java_text(number, Types.DOUBLE())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.4028234663852886e38, "3.4028235E38"),
        (0.10000000149011612, "0.1"),
        (110.0999984741211, "110.1"),
        (16777216.0, "1.6777216E7"),
        (float("nan"), "NaN"),
        (0.0, "0.0"),
    ],
)
def test_a_float_has_the_fewest_digits_that_tell_it(number, text):
    """Among the numbers of 32 bits."""
    assert text == java_text(number, Types.FLOAT())


@pytest.mark.parametrize(
    ("value", "type_info", "text"),
    [
        (("a", 1), Types.PICKLED_BYTE_ARRAY(), "('a', 1)"),
        (("a", 1), PAIR, "(a,1)"),
        (Row("a", None), ROW, "+I[a,None]"),
        (Row.of_kind(RowKind.DELETE, "a", 1), ROW, "-D[a,1]"),
        (None, Types.PICKLED_BYTE_ARRAY(), "None"),
    ],
)
def test_print_writes_untyped_elements_and_rows_as_pyflink(value, type_info, text):
    """Those it makes text of itself; all others are Java's."""
    assert text == print_text(value, type_info)
