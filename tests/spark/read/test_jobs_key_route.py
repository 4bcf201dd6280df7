# SPDX-License-Identifier: Apache-2.0
"""Keys are hashed in Python as Spark hashes them: the same key group for every value of every type."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_support import reads_state

from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike.errors import StateValueError
from pyflinklike.queryable_state.replica_source import KeyRoute
from pyflinklike.spark._wire.schema import key_type_of
from pyflinklike.state_processor._checkpoints.state_frames import KeyGroupFinder, find_wanted_keys

pytestmark = reads_state
FEW = settings(max_examples=max(settings().max_examples // 25, 2), deadline=None)


def ints(bits):
    """All that a number of so many bits may be."""
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


INSTANTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
PARTS = {
    "boolean": st.booleans(),
    "tinyint": ints(8),
    "smallint": ints(16),
    "int": ints(32),
    "bigint": ints(64),
    "string": st.text(st.characters(codec="utf-8"), max_size=80),
    "string collate UTF8_LCASE": st.text(st.characters(codec="utf-8"), max_size=20),
    "binary": st.binary(max_size=80),
    "date": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "timestamp": INSTANTS,
    "timestamp_ntz": INSTANTS,
    "double": st.floats(allow_nan=False),
    "decimal(10,2)": st.decimals(-1000, 1000, places=2),
}
SEVERAL = ["string, bigint", "int, date, boolean", "timestamp, string"]


def record(kinds, time_zone="Europe/Berlin"):
    """Of an operator that is keyed by columns of these types."""
    columns = tuple((f"k{at}", kind) for at, kind in enumerate(kinds))
    identity = OperatorIdentity("tested", 1021, columns, "")
    return OperatorRecord(identity, "", "0", time_zone, None, "None", {})


def groups(spark, of, keys):
    """The key groups by the stream's own expression."""
    ddl = ", ".join(f"{name} {kind}" for name, kind in of.identity.key_columns)
    types = {field.name: field.dataType for field in spark.createDataFrame([], ddl).schema.fields}
    key_type = key_type_of(list(types.values()), of.time_zone)
    return KeyGroupFinder(types, key_type, 1021, of.time_zone).of(spark, keys)


@pytest.mark.parametrize("kind", PARTS)
@given(data=st.data())
@FEW
def test_a_key_of_one_column_is_found_where_the_stream_put_it(spark, kind, data):
    """Texts longer than a stripe, the smallest and largest numbers, times before 1970."""
    of = record([kind])
    few = kind in ("double", "decimal(10,2)")  # for which Spark is asked, a job for each
    keys = data.draw(st.lists(PARTS[kind], min_size=2, max_size=3 if few else 200))
    route = KeyRoute(spark, of)
    assert {few} == {route._hash(key) is None for key in keys}
    assert groups(spark, of, keys) == [route(key)[1] for key in keys]


@pytest.mark.parametrize("kinds", SEVERAL)
@given(data=st.data())
@FEW
def test_a_key_of_several_columns_may_have_nulls(spark, kinds, data):
    """A null leaves the hash of the columns before it as it is."""
    of = record(kinds.split(", "))
    parts = [st.none() | PARTS[kind] for kind in kinds.split(", ")]
    keys = data.draw(st.lists(st.tuples(*parts), min_size=2, max_size=100))
    route = KeyRoute(spark, of)
    assert groups(spark, of, keys) == [route(key)[1] for key in keys]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("tinyint", 128),
        ("bigint", "1"),
        ("bigint", True),
        ("string", 1),
        ("date", dt.datetime(2026, 1, 1)),
        ("string", None),
        ("string", ("a", "b")),
    ],
)
def test_what_is_no_key_is_refused(spark, kind, key):
    """As `read_state(keys=...)` does, and not looked for where it cannot be."""
    with pytest.raises(StateValueError):
        KeyRoute(spark, record([kind]))(key)


def test_a_key_is_stored_as_a_job_stores_it(spark):
    """A value of Spark's own types and the one found by a job are the same."""
    of = record(["timestamp", "string"])
    key = (dt.datetime(2026, 10, 25, 2, 30), "a")
    frozen, group = KeyRoute(spark, of)(key)
    wanted = find_wanted_keys(spark, of, [key])
    assert ([frozen.data], {group}) == (wanted.stored.to_pylist(), set(wanted.groups))
