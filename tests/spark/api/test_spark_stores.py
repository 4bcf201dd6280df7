# SPDX-License-Identifier: Apache-2.0
"""Every kind of store on a stream and on a batch gives what it gives in the harness."""

from __future__ import annotations

import random

import pytest
from host_models import model_batch
from spark_support import at, bounded, pickle_by_value, rows_of

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    Row,
    Types,
)
from pyflinklike.spark import get_side_output, key_by, main_output
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, page string, n long"
OUTPUT = "key string, dump string"
COUNTS = KeyValueStoreDescriptor("counts", Types.STRING(), Types.LONG())
GROUP = KeyValueStoreDescriptor("group", Types.STRING(), Types.LONG(), scope="partition")
LRU = LruStoreDescriptor("lru", Types.STRING(), Types.LONG(), max_entries=3)
WINDOWS = WindowStoreDescriptor(
    "windows", Types.STRING(), Types.LONG(), window_size=100, retention=400, caching=False
)
SESSIONS = SessionStoreDescriptor(
    "sessions", Types.STRING(), Types.LONG(), retention=1_000, stream_time="watermark"
)
VERSIONS = VersionedStoreDescriptor(
    "versions", Types.STRING(), Types.LONG(), history_retention=300, scope="partition"
)
LAST = TimestampedStoreDescriptor("last", Types.STRING(), Types.LONG())
TAGS = [each.changelog_tag for each in (COUNTS, GROUP, WINDOWS, SESSIONS)]


class Everything(KeyedProcessFunction):
    """Writes each element to a store of every kind, and yields what the stores hold."""

    def open(self, runtime_context):
        self.stores = {
            each.name: runtime_context.get_store(each)
            for each in (COUNTS, GROUP, LRU, WINDOWS, SESSIONS, VERSIONS, LAST)
        }

    def process_element(self, value, ctx):
        stores, page, time = self.stores, value.page, ctx.timestamp()
        counts, windows = stores["counts"], stores["windows"]
        counts[page] = counts.get(page, 0) + value.n
        stores["group"][f"{ctx.get_current_key()}/{page}"] = value.n
        if value.n == 0:
            counts.delete(page)
        stores["lru"].get("a")
        stores["lru"][page] = value.n
        start = time // 100 * 100
        windows.put(page, windows.get(page, start, 0) + 1)
        update = stores["sessions"].add(
            page,
            time,
            1,
            gap=30,
            grace=200,
            initializer=int,
            aggregator=lambda _, one, agg: agg + one,
            merger=lambda _, one, other: one + other,
        )
        stores["versions"].put(ctx.get_current_key(), value.n, time)
        stores["last"][page] = value.n
        yield (
            ctx.get_current_key(),
            repr(
                [
                    list(counts.range("a", "b")),
                    list(stores["lru"].items()),
                    list(windows.fetch_all()),
                    list(stores["sessions"].fetch_range(reverse=True)),
                    update,
                    list(stores["versions"].history(ctx.get_current_key())),
                    list(stores["last"].prefix_scan("a")),
                ]
            ),
        )


def batches_of(seed, count, size):
    """Micro-batches whose times go back and forth."""
    choice = random.Random(seed)
    return [
        [
            (
                choice.choice("xyz"),
                at(number * 200 + choice.randrange(0, 400)),
                choice.choice(["a", "aa", "b", "c", ""]),
                choice.randrange(0, 4),
            )
            for _ in range(size)
        ]
        for number in range(count)
    ]


def harness():
    """The same function without Spark."""
    return KeyedProcessHarness(Everything(), key_selector=lambda row: row.key)


def logged(records):
    """Records of a changelog as plain tuples, sorted; per key their order is fixed by `value`."""
    return rows_of((r[0], _plain(r[1]), *r[2:]) for r in records)


def _plain(key):
    return tuple(map(_plain, key)) if isinstance(key, tuple) else key


@pytest.mark.parametrize(
    "backend",
    [pytest.param(HashMapStateBackend, marks=pytest.mark.telling), EmbeddedRocksDBStateBackend],
)
def test_stores_on_a_batch_are_those_of_the_harness(spark, backend):
    """Sorted by time, in one key group, so that the group's store is the harness's."""
    if backend is EmbeddedRocksDBStateBackend:
        pytest.importorskip("rocksdict")
    rows = [row for batch in batches_of(11, 2, 30) for row in batch]
    result = key_by(bounded(spark, rows, SCHEMA), "key").process(
        Everything(),
        OUTPUT,
        event_time="ts",
        max_parallelism=1,
        side_outputs=TAGS,
        state_backend=backend(),
    )
    result = result.persist()
    elements = [Row(**dict(zip(("key", "ts", "page", "n"), row))) for row in rows]
    with harness() as model:
        model_batch(model, [elements], "ts")
        changelogs = {tag.tag_id: logged(model.side_output(tag)) for tag in TAGS}
        main = rows_of(model.output)

    assert main == rows_of(main_output(result).collect())
    for tag in TAGS:
        assert changelogs[tag.tag_id] == logged(get_side_output(result, tag).collect())
    keys = get_side_output(result, COUNTS.changelog_tag).schema["key"].dataType.simpleString()
    assert keys == "struct<current_key:string,key:string>"
    result.unpersist()


def test_a_changelog_of_several_key_columns_has_them_in_its_key(spark):
    """As a struct of the columns, before the store's own key."""
    df = bounded(spark, [("x", at(5), "a", 2)], SCHEMA)
    result = key_by(df, "page", "n").process(
        Pairs(), "n long", side_outputs=[COUNTS.changelog_tag], max_parallelism=2
    )
    (row,) = get_side_output(result, COUNTS.changelog_tag).collect()

    assert ("counts", (("a", 2), "seen"), 1, None, "put") == tuple(row)


class Pairs(KeyedProcessFunction):
    """Counts what it sees."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_store(COUNTS)

    def process_element(self, value, ctx):
        self.counts["seen"] = self.counts.get("seen", 0) + 1
        return ()
