# SPDX-License-Identifier: Apache-2.0
"""Views in PostgreSQL: rows come back bit by bit, SQL sees columns, and orders compare as in Python."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from view_support import change

from pyflinklike import Row
from pyflinklike.errors import DeclarationValueError, StateValueError, ValueDecodeError
from pyflinklike.views import MaterializedView, PostgresView
from pyflinklike.views.order_keys import is_nan, is_newer

pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
from pyflinklike.views.postgres_staging import order_bytes, types_of

NUMBERS = st.integers() | st.floats(allow_nan=False) | st.decimals(allow_nan=False) | st.booleans()
DAY = dt.datetime(2026, 10, 25, 2, 30, 0, 1, fold=1)
ROW = {
    "id": "k",
    "big": -(2**62),
    "price": Decimal("-0.10"),
    "ratio": -0.0,
    "nan": math.nan,
    "none": None,
    "data": b"\x00\xff",
    "day": dt.date(1, 1, 1),
    "at": DAY,
    "local": DAY,
    "took": dt.timedelta(days=-1, microseconds=1),
    "text": "a\0é😀",
    "nested": Row(
        a=[1, {"x": math.inf}], when=DAY.replace(tzinfo=dt.timezone.utc), d=Decimal("1.50")
    ),
}
COLUMNS = {
    "id": "text",
    "big": "bigint",
    "price": "numeric",
    "ratio": "double precision",
    "nan": "double precision",
    "none": "bigint",
    "data": "bytea",
    "day": "date",
    "at": "timestamp with time zone",
    "local": "timestamp without time zone",
    "took": "interval",
    "text": "text",
    "place": "bigint",
    "nested": "jsonb",
}


@given(one=NUMBERS, other=NUMBERS, more=st.tuples(st.none() | st.text(), st.none() | st.text()))
def test_orders_compare_in_the_database_as_in_python(one, other, more):
    """Numbers by value, whatever their types; None is the least; parts from left to right."""
    numbers = [each for each in (one, other) if isinstance(each, Decimal) and each.is_finite()]
    assume(all(abs(each.adjusted()) <= 600 for each in numbers))
    assume(all(abs(each) < 10**600 for each in (one, other) if isinstance(each, int)))
    assume(not is_nan((one, other)))
    first, second = (one, more[0]), (other, more[1])

    assert is_newer(first, second) == (order_bytes(first) > order_bytes(second))
    assert (first == second) == (order_bytes(first) == order_bytes(second))


def test_a_row_comes_back_as_it_was_and_sql_sees_its_columns(opened, schemas, schema):
    """A value of every type; near enough in SQL where PostgreSQL cannot hold it."""
    with opened(columns=COLUMNS) as view:
        view.apply([ROW], 0)
        found = view["k"]
        names = ", ".join(f'"{name}"' for name in COLUMNS)
        (line,) = schemas.run(f"SELECT {names} FROM {schema}.v")
        ((inside,),) = schemas.run(f"SELECT nested #>> '{{a,1,x}}' FROM {schema}.v WHERE id = 'k'")

    assert repr(ROW) == repr(found)
    assert (DAY.fold, True) == (found["at"].fold, math.copysign(1, found["ratio"]) < 0)
    seen = dict(zip(COLUMNS, line))
    assert (Decimal("-0.10"), b"\x00\xff", "a\ufffdé😀") == (
        seen["price"],
        seen["data"],
        seen["text"],
    )
    assert (DAY.replace(tzinfo=dt.timezone.utc), DAY.replace(fold=0)) == (seen["at"], seen["local"])
    assert (ROW["took"], dt.date(1, 1, 1), None) == (seen["took"], seen["day"], seen["none"])
    assert math.isnan(seen["nan"])
    assert ("Infinity" if inside == "Infinity" else "inf") == inside
    assert 1.5 == seen["nested"]["d"]


def test_an_error_in_the_place_of_a_row_is_seen_by_sql(opened, schemas, schema):
    """In a column of its own, beside the key."""
    with opened(columns={"id": "bigint"}) as view:
        view.apply([change("insert", 7, None, error="not a number")], 0)
        with pytest.raises(ValueDecodeError, match="not a number"):
            view.get(7)

    assert [(7, "'not a number'")] == schemas.run(f"SELECT id, _error FROM {schema}.v")


def test_orders_of_two_types_are_refused(opened):
    """At the first one of another type, of whichever key."""
    with opened(order_by="at") as view:
        view.apply([{"id": 1, "at": 1}, {"id": 2, "at": 1.5}], 0)
        with pytest.raises(StateValueError, match=r"number and str in 'at'; cast"):
            view.apply([{"id": 3, "at": "x"}], 1)

        assert view.apply([{"id": 1, "at": Decimal("1.1")}, {"id": 2, "at": 1}], 1)
        assert [Decimal("1.1"), 1.5] == [view[1]["at"], view[2]["at"]]


@pytest.mark.parametrize(
    "columns", [{"n": "bigint; DROP TABLE x"}, {"n": "bigint, m text"}, {"n": ""}]
)
def test_a_type_is_a_type(columns):
    """No other SQL."""
    with pytest.raises(DeclarationValueError, match="a type of PostgreSQL"):
        PostgresView("v", key="id", conninfo="host=127.0.0.1", columns=columns)


@pytest.mark.parametrize("name", ["_row", "n" * 64, ""])
def test_a_column_that_postgresql_cannot_have_is_refused(name):
    """One of ours, one whose name would be cut off, and one without a name."""
    with pytest.raises(StateValueError, match="rename it"):
        PostgresView("v", key="id", conninfo="host=127.0.0.1", columns={name: "text"})


def test_columns_of_changes_are_those_of_the_value_and_the_key():
    """Also where the key has another name than in the rows."""

    def of(**fields):
        return {"type": "struct", "fields": [{"name": n, "type": k} for n, k in fields.items()]}

    value = of(total="decimal(10,2)", at="timestamp", tags={"type": "array"})
    schema = of(key="string", op="string", value=value, diff="integer", error="string")

    assert types_of("v", schema, ("user",)) == {
        "user": "text",
        "total": "numeric",
        "at": "timestamp with time zone",
        "tags": "jsonb",
    }
    plain = of(user="long", day="date", op="string", diff="integer")
    assert types_of("v", plain, ("user",)) == {"user": "bigint", "day": "date"}


OPS = [("plain", 0), ("plain", 1), ("plain", 2), ("set", 1), ("delete", 0), ("retract", 1)]
"""What a row of a batch may do, and its order."""


def arrival(key, op, at, tag):
    """A row that does it."""
    value = {"id": key, "at": at, "tag": tag if op == "plain" else 0}
    if op == "plain":
        return value
    names = {"set": "update_after", "delete": "delete", "retract": "update_before"}
    return change(names[op], key, None if op == "delete" else value)


@pytest.mark.parametrize("order_by", [None, "at"])
def test_whatever_a_batch_does_to_a_key_is_what_it_does_in_a_file(opened, tmp_path, order_by):
    """Every sequence of up to three rows, with and without a row before; equal orders are duplicates."""
    sequences = [each for n in (1, 2, 3) for each in itertools.product(OPS, repeat=n)]
    keys = range(2 * len(sequences))
    before = [{"id": key, "at": 1, "tag": 0} for key in keys if key % 2]
    rows = [
        arrival(key, *op, tag)
        for key in keys
        for tag, op in enumerate(sequences[key // 2], start=1)
    ]
    with (
        MaterializedView("v", key="id", order_by=order_by, path=tmp_path) as file,
        opened(order_by=order_by) as postgres,
    ):
        for view in (file, postgres):
            view.apply(before, 0)
            view.apply(rows, 1)
        expected, found = (view.get_many(keys) for view in (file, postgres))
        told = [
            [(change.op, change.key) for change in view.changes(start="earliest", timeout=0)]
            for view in (file, postgres)
        ]
        postgres.verify()

    assert expected == found
    assert told[0] == told[1]
