# SPDX-License-Identifier: Apache-2.0
"""Changes of TTL and type at a restart over RocksDB's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from spark_savepoints import rocksdb
from spark_support import Feed, at, drain, pickle_by_value

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by

pickle_by_value(__name__)


class Remembered(KeyedProcessFunction):
    """Puts what is not negative, and says what it finds; its TTL is in event time."""

    def __init__(self, ttl, kind=None):
        self.ttl = ttl
        self.kind = kind or Types.LONG()

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("value", self.kind)
        if self.ttl is not None:
            builder = StateTtlConfig.new_builder(self.ttl).disable_cleanup_in_background()
            characteristic = StateTtlConfig.TtlTimeCharacteristic.EventTime
            descriptor.enable_time_to_live(
                builder.set_ttl_time_characteristic(characteristic).build()
            )
        self.value = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        if value.n >= 0:
            self.value.update(value.n)
        else:
            yield ctx.get_current_key(), self.value.value()


class OneOwner(EmbeddedRocksDBStateBackend):
    """Has the files of every query under one name, so that a restart finds them."""

    def create_keyed_state_backend(self, scope, owner):
        return super().create_keyed_state_backend(scope, "one/" + owner.rpartition("/")[2])


# Without Spark: test_savepoint_changes, over both backends.
@pytest.mark.thorough
def test_a_ttl_may_change_at_a_restart_over_rocksdb(spark, tmp_path):
    """On, longer and off, as the rules have it; what is on the disk under the former TTL never shows. A changed type is refused."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n long")
    backend = rocksdb(tmp_path / "local", OneOwner)

    def run(ttl, *batches, kind=None):
        feed.add(*[[(key, at(time), n) for key, time, n in batch] for batch in batches])
        result = key_by(feed.stream(), "key").process(
            Remembered(ttl, kind),
            "key string, value long",
            event_time="ts",
            state_backend=backend,
            max_parallelism=1,
        )
        found = drain(result, tmp_path / "checkpoint")
        assert any(Path(tmp_path / "local").rglob("CURRENT"))
        return [tuple(row) for number in sorted(found) for row in found[number]]

    assert [] == run(None, [("a", 1_000, 1), ("b", 1_000, 2), ("c", 1_000, 3)])
    # Stamped with the time of the restore, which is the watermark.
    found = run(100, [("d", 1_099, 4), ("a", 1_100, -1)], [("a", 1_101, -1)])
    assert [("a", 1), ("a", None)] == found
    # Judged by the new TTL: b, stamped 1000, is expired at the watermark 1150.
    found = run(150, [("b", 1_150, -1)], [("b", 1_151, -1)])
    assert [("b", 2), ("b", None)] == found
    # Permanent, what had expired as well.
    found = run(None, [("c", 9_000, -1), ("d", 9_000, -1), ("b", 9_000, -1)])
    assert [("c", 3), ("d", 4), ("b", None)] == found
    with pytest.raises(StreamingQueryException, match=r"IncompatibleStateError: .*'value'"):
        run(None, [("c", 9_003, -1)], kind=Types.STRING())
