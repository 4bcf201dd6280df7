# SPDX-License-Identifier: Apache-2.0
"""Types as they are declared: their names, when they are equal, and wrong ones refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from type_support import DOUBLE, LONG, PICKLED, STRING

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types import Instant, Types


@pytest.mark.parametrize(
    ("type_info", "expected"),
    [
        (Types.INT(), "Integer"),
        (STRING, "String"),
        (LONG, "Long"),
        (Types.BYTE(), "Byte"),
        (Types.SHORT(), "Short"),
        (Types.FLOAT(), "Float"),
        (DOUBLE, "Double"),
        (Types.BOOLEAN(), "Boolean"),
        (Types.CHAR(), "Character"),
        (Types.BIG_INT(), "BigInteger"),
        (Types.BIG_DEC(), "BigDecimal"),
        (Types.INSTANT(), "Instant"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (Types.SQL_TIME(), "TimeTypeInfo"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
        (PICKLED, "PickledByteArrayTypeInfo"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
        (Types.MAP(Types.INT(), STRING), "MapTypeInfo<Integer, String>"),
        (Types.ROW([Types.INT()]), "RowTypeInfo(Integer)"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "RowTypeInfo(a: Integer)"),
        (Types.TUPLE([Types.INT(), LONG]), "TupleTypeInfo(Integer, Long)"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.PRIMITIVE_ARRAY(LONG), "PrimitiveArrayTypeInfo<Long>"),
        (Types.BASIC_ARRAY(STRING), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(STRING), "ObjectArrayTypeInfo<String>"),
    ],
)
def test_reprs_are_pyflinks(type_info, expected):
    """A type prints as PyFlink's does."""
    assert expected == repr(type_info)


def test_types_differ_by_structure_and_names():
    """Kind, parts and field names all tell types apart, in equality and signature."""
    types = [
        LONG,
        Types.INT(),
        STRING,
        Types.CHAR(),
        DOUBLE,
        Types.FLOAT(),
        Types.LIST(LONG),
        Types.LIST(Types.INT()),
        Types.BASIC_ARRAY(LONG),
        Types.OBJECT_ARRAY(LONG),
        Types.PRIMITIVE_ARRAY(LONG),
        Types.MAP(LONG, STRING),
        Types.MAP(STRING, LONG),
        Types.TUPLE([LONG]),
        Types.ROW([LONG]),
        Types.ROW_NAMED(["a"], [LONG]),
        Types.ROW_NAMED(["b"], [LONG]),
        Types.ROW_NAMED(["a: Long, b"], [LONG]),
        Types.ROW_NAMED(["a", "b"], [LONG, LONG]),
    ]
    assert len(types) == len(set(types)) == len({t.signature for t in types})
    assert Types.LIST(Types.LONG()) == Types.LIST(Types.LONG())


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Types.LIST(int),
        lambda: Types.LIST(Types.LONG),
        lambda: Types.MAP(LONG, None),
        lambda: Types.TUPLE([LONG, "x"]),
        lambda: Types.ROW(LONG),
        lambda: Types.ROW_NAMED([1], [LONG]),
        lambda: Types.ROW_NAMED("a", [LONG]),
        lambda: Types.PRIMITIVE_ARRAY(STRING),
        lambda: Types.BASIC_ARRAY(Types.LIST(LONG)),
        lambda: Types.OBJECT_ARRAY("x"),
        lambda: Instant(1.0, 0),
    ],
)
def test_wrong_kinds_are_refused_when_declared(declare):
    """Whatever is no TypeInformation is a DeclarationTypeError, which is a TypeError."""
    with pytest.raises(DeclarationTypeError):
        declare()


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Types.ROW_NAMED(["a"], [LONG, LONG]),
        lambda: Types.ROW_NAMED(["a", "a"], [LONG, LONG]),
        lambda: Instant(0, 1_000_000_000),
        lambda: Instant(2**63, 0),
    ],
)
def test_wrong_values_are_refused_when_declared(declare):
    """Names that are too few or not distinct are a DeclarationValueError, a ValueError."""
    with pytest.raises(DeclarationValueError):
        declare()


@given(st.integers(-(2**50), 2**50))
def test_instants_convert_to_ms_and_back(millis):
    """Epoch ms survive an Instant, before 1970 as well, and keep their order."""
    instant = Instant.of_epoch_milli(millis)
    assert millis == instant.to_epoch_milli()
    assert instant < Instant.of_epoch_milli(millis + 1)
