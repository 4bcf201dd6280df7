# SPDX-License-Identifier: Apache-2.0
"""Every type there and back: checkpoint, savepoint, another query, DuckDB, a harness."""

from __future__ import annotations

import pyarrow as pa
import pytest
from saved_values import VALUES
from spark_savepoints import rocksdb
from spark_support import Feed, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import Savepoint, open_savepoint, take_savepoint
from pyflinklike.testing import KeyedProcessHarness

pytestmark = reads_state
pickle_by_value(__name__)

PARTITIONS = "spark.sql.shuffle.partitions"
KINDS = [*VALUES]
PLAIN = [kind for kind in KINDS if not kind.is_pickled]
NAMES = [f"f{at}" for at in range(len(PLAIN))]
WIDE = Types.ROW_NAMED(NAMES, PLAIN)


class Keeping(KeyedProcessFunction):
    """A value of each type; a list and a map of rows of all of them; what it holds as a text."""

    def __init__(self):
        self.kinds = [(kind, VALUES[kind]) for kind in KINDS]

    def open(self, runtime_context):
        states = [ValueStateDescriptor(f"s{at}", kind) for at, (kind, _) in enumerate(self.kinds)]
        self.states = [runtime_context.get_state(each) for each in states]
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", WIDE))
        wide = MapStateDescriptor("wide", Types.SQL_TIMESTAMP(), WIDE)
        self.wide = runtime_context.get_map_state(wide)

    def process_element(self, value, ctx):
        if value.n >= 0:
            chosen = [values[value.n % len(values)] for _, values in self.kinds]
            for state, each in zip(self.states, chosen):
                state.update(each)
            plain = [each for (kind, _), each in zip(self.kinds, chosen) if not kind.is_pickled]
            row = dict(zip(NAMES, plain))
            self.rows.add_all([row, {**row, "f0": None, "f4": None}])
            self.wide.put(chosen[KINDS.index(Types.SQL_TIMESTAMP())], row)
        held = [state.value() for state in self.states]
        yield value.user, repr((held, [*map(tuple, self.rows.get())], [*self.wide.items()]))


def run(spark, directory, records, **options):
    """What each user's state is, and the checkpoint."""
    feed = Feed(spark, directory / "feed", "user string, n int")
    feed.add(records)
    query = key_by(feed.stream(), "user").process(
        Keeping(), "user string, held string", uid="keeping", **options
    )
    batches = drain(query, directory / "checkpoint")
    return {
        row.user: row.held for rows in batches.values() for row in rows
    }, directory / "checkpoint"


USERS = ["", "é\n", "u"]


def contents(path):
    """All rows of a savepoint, but for the key groups, as texts: NaN equals itself there."""
    saved = open_savepoint(path)
    saved.verify()
    return {
        info.name: sorted(map(repr, rows_of(saved.dataset(info.name).to_table())))
        for info in saved.states()
    }


def rows_of(table: pa.Table):
    """Without the key group."""
    return table.drop_columns(["key_group"]).to_pylist()


def test_every_type_comes_back_from_wherever_it_was(spark, tmp_path):
    """In other key groups, partitions and another backend; through DuckDB; in a harness."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (the extra `tools`)")
    records = [(user, at) for at, user in enumerate(USERS)]
    expected, checkpoint = run(spark, tmp_path / "1", records, max_parallelism=4)
    take_savepoint(spark, checkpoint, tmp_path / "s1")

    former = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "3")
    try:
        found, other = run(
            spark,
            tmp_path / "2",
            [(user, -1) for user in USERS],
            max_parallelism=7,
            state_backend=rocksdb(tmp_path / "db"),
            from_savepoint=tmp_path / "s1",
        )
    finally:
        spark.conf.set(PARTITIONS, former)
    assert expected == found
    take_savepoint(spark, other, tmp_path / "s2")
    before = contents(tmp_path / "s1")
    assert 3 == len(before["s0"])
    assert before == contents(tmp_path / "s2")

    edited = Savepoint.read(spark, tmp_path / "s2")
    for info in open_savepoint(tmp_path / "s2").states():
        files = tmp_path / "s2" / "operators" / "keeping" / "states" / info.name / "*.parquet"
        copy = tmp_path / f"{info.name}.parquet"
        duckdb.sql(f"COPY (SELECT * FROM '{files}') TO '{copy}' (FORMAT parquet)")
        read = spark.read.parquet(str(copy))
        edited = edited.transform_state(info.name, lambda _, read=read: read)
    edited.write(tmp_path / "s3")
    assert before == contents(tmp_path / "s3")

    with KeyedProcessHarness(
        Keeping(),
        lambda row: row.user,
        restore=open_savepoint(tmp_path / "s3"),
        key_type=Types.STRING(),
    ) as harness:
        for user in USERS:
            assert [(user, expected[user])] == harness.process_element(Row(user=user, n=-1))
