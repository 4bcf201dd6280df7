# SPDX-License-Identifier: Apache-2.0
"""Pickles of public values: what they name, and that they keep their bytes as keys.

Two kinds of pickles are told apart.

* `DURABLE`: values that a program may keep in state of `Types.PICKLED_BYTE_ARRAY()`, alone or
  within its own.  A key of such a type is found by its bytes, so these stay the same.
* `SENT`: what a program declares and sends to its workers.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import pyflinklike as flink
from pyflinklike import Types, cdc, errors, stores, upsert, views
from pyflinklike._exports import PUBLIC_MODULES
from pyflinklike.types import Pickled


class Summing(flink.AggregateFunction):
    """Of a user's module."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b

    def __eq__(self, other: object) -> bool:
        return type(other) is Summing

    __hash__ = None


def expiring() -> flink.ValueStateDescriptor:
    """A descriptor with a TTL of all that can be said."""
    descriptor = flink.ValueStateDescriptor("expiring", Types.STRING())
    descriptor.enable_time_to_live(
        flink.StateTtlConfig.new_builder(flink.Time.hours(1))
        .set_update_type(flink.StateTtlConfig.UpdateType.OnReadAndWrite)
        .return_expired_if_not_cleaned_up()
        .use_event_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(5, flink.Duration.of_days(2))
        .build()
    )
    return descriptor


def tuned() -> flink.EmbeddedRocksDBStateBackend:
    """A backend with settings."""
    backend = flink.EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/tmp/a")
    backend.set_predefined_options(flink.PredefinedOptions.FLASH_SSD_OPTIMIZED)
    return backend


ROW_TYPE = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.LONG()])
SCALARS = [
    Types.BIG_DEC,
    Types.BIG_INT,
    Types.BOOLEAN,
    Types.BYTE,
    Types.CHAR,
    Types.DOUBLE,
    Types.FLOAT,
    Types.INSTANT,
    Types.INT,
    Types.LONG,
    Types.PICKLED_BYTE_ARRAY,
    Types.SHORT,
    Types.SQL_DATE,
    Types.SQL_TIME,
    Types.SQL_TIMESTAMP,
    Types.STRING,
]

DURABLE: dict[str, Callable[[], Any]] = {
    "Row": lambda: flink.Row(1, None, "x"),
    "Row, named": lambda: flink.Row(name="x", within=flink.Row(count=[1])),
    "Row, empty": flink.Row,
    "Instant": lambda: flink.Instant(-1, 999_999_999),
    "Time": lambda: flink.Time.seconds(1),
    "Duration": lambda: flink.Duration.of_nanos(1),
    "TimeDomain": lambda: flink.TimeDomain.PROCESSING_TIME,
    "CdcEvent": lambda: cdc.CdcEvent("u", 1, None, {"id": 1}, order_key=(1, 2)),
    "Change": lambda: views.Change("insert", 1, None, flink.Row(a=1), 5),
    "Freshness": lambda: views.Freshness(1, None, 3),
    "KeyValue": lambda: stores.KeyValue("k", 1),
    "WindowedKeyValue": lambda: stores.WindowedKeyValue("k", 1, 0, 10),
    "SessionKey": lambda: stores.SessionKey("k", 0, 10),
    "AbsorbedSession": lambda: stores.AbsorbedSession.of("k", 0, 10, "agg"),
    "SessionUpdate": lambda: stores.SessionUpdate([], stores.SessionKey("k", 0, 10), 1, False),
    "ValueAndTimestamp": lambda: stores.ValueAndTimestamp(1, 2),
    "VersionedRecord": lambda: stores.VersionedRecord(1, 2, None),
    "ChangelogRecord": lambda: stores.ChangelogRecord("s", "k", 1, None, "put"),
    "FinalizedValue": lambda: upsert.FinalizedValue({"a": 1}, 7),
    "Tombstone": lambda: upsert.Tombstone(7),
    "ProvisionalValue": lambda: upsert.ProvisionalValue.new(1, 2, 3),
    "PutValue": lambda: upsert.PutValue(None, upsert.ValueMetadata(3, True)),
    "UpsertValueAndSize": lambda: upsert.UpsertValueAndSize(upsert.Tombstone(), None),
    "ValueMetadata": lambda: upsert.ValueMetadata(3, True),
    "MergeValue": lambda: upsert.MergeValue(upsert.FinalizedValue(1), 1),
    **{name: partial(getattr(errors, name), "what was wrong") for name in errors.__all__},
}

SENT: dict[str, Callable[[], Any]] = {
    **{f"Types.{each.__name__}": each for each in SCALARS},
    "Types.LIST": lambda: Types.LIST(ROW_TYPE),
    "Types.MAP": lambda: Types.MAP(Types.STRING(), Types.LIST(Types.LONG())),
    "Types.ROW": lambda: Types.ROW([Types.LONG(), Types.STRING()]),
    "Types.ROW_NAMED": lambda: ROW_TYPE,
    "Types.TUPLE": lambda: Types.TUPLE([Types.LONG(), ROW_TYPE]),
    "Types.PRIMITIVE_ARRAY": lambda: Types.PRIMITIVE_ARRAY(Types.DOUBLE()),
    "Types.PRIMITIVE_ARRAY of bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "Types.BASIC_ARRAY": lambda: Types.BASIC_ARRAY(Types.STRING()),
    "Types.OBJECT_ARRAY": lambda: Types.OBJECT_ARRAY(ROW_TYPE),
    "OutputTag": lambda: flink.OutputTag("late", Types.STRING()),
    "ValueStateDescriptor": lambda: flink.ValueStateDescriptor("v", Types.LONG()),
    "ValueStateDescriptor with TTL": expiring,
    "ListStateDescriptor": lambda: flink.ListStateDescriptor("l", ROW_TYPE),
    "MapStateDescriptor": lambda: flink.MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    "ReducingStateDescriptor": lambda: flink.ReducingStateDescriptor("r", max, Types.LONG()),
    "AggregatingStateDescriptor": lambda: flink.AggregatingStateDescriptor(
        "a", Summing(), Types.LONG()
    ),
    "StateTtlConfig": lambda: flink.StateTtlConfig.new_builder(1_000).build(),
    "StateTtlConfig.DISABLED": lambda: flink.StateTtlConfig.DISABLED,
    "HashMapStateBackend": lambda: flink.HashMapStateBackend(1024),
    "EmbeddedRocksDBStateBackend": tuned,
    "KeyValueStoreDescriptor": lambda: stores.KeyValueStoreDescriptor(
        "s", Types.STRING(), Types.LONG(), scope="partition", changelog_config={"a": 1}
    ),
    "TimestampedStoreDescriptor": lambda: stores.TimestampedStoreDescriptor(
        "s", Types.STRING(), Types.LONG()
    ),
    "LruStoreDescriptor": lambda: stores.LruStoreDescriptor(
        "s", Types.STRING(), Types.LONG(), max_entries=3
    ),
    "WindowStoreDescriptor": lambda: stores.WindowStoreDescriptor(
        "s", Types.STRING(), Types.LONG(), window_size=10
    ),
    "SessionStoreDescriptor": lambda: stores.SessionStoreDescriptor(
        "s", Types.STRING(), Types.LONG(), retention=5_000
    ),
    "VersionedStoreDescriptor": lambda: stores.VersionedStoreDescriptor(
        "s", Types.STRING(), Types.LONG(), history_retention=5
    ),
    "a store's changelog tag": lambda: (
        stores.KeyValueStoreDescriptor("s", Types.STRING(), Types.LONG()).changelog_tag
    ),
    "Pickled": lambda: Pickled(b"\x80"),
}

VALUES = DURABLE | SENT

# What tells keys apart; written by the commit that made the doors.
KEYS = {
    "Row": (
        "80059526000000000000008c0b7079666c696e6b6c696b658c0b726573746f72655f726f7793"
        "294b014e8c01788786522e"
    ),
    "Row, named": (
        "8005955b000000000000008c0b7079666c696e6b6c696b658c0b726573746f72655f726f7793"
        "8c046e616d658c0677697468696e868c01788c0b7079666c696e6b6c696b658c0b726573746f"
        "72655f726f77938c05636f756e74855d4b01618586528686522e"
    ),
    "Instant": (
        "80059524000000000000008c0b7079666c696e6b6c696b658c07496e7374616e7493"
        "4affffffff4affc99a3b86522e"
    ),
    "Time": "8005951a000000000000008c0b7079666c696e6b6c696b658c0454696d65934de80385522e",
    "Duration": (
        "8005951d000000000000008c0b7079666c696e6b6c696b658c084475726174696f6e934b0185522e"
    ),
}


def comparable(value: Any) -> Any:
    """The value, or of an error what tells it from another."""
    return (type(value), value.args) if isinstance(value, Exception) else (type(value), value)


class Naming(pickle.Unpickler):
    """Notes what a pickle names."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


def ours_named_in(data: bytes) -> set[str]:
    """The modules of pyflinklike that a pickle names."""
    naming = Naming(data)
    naming.load()
    return {module for module in naming.modules if module.partition(".")[0] == "pyflinklike"}


@pytest.mark.parametrize("name", VALUES)
def test_a_pickle_names_only_doors(name: str):
    """So that no module behind a door is fixed by what was pickled; in any protocol."""
    for protocol in (2, 4, 5):
        named = ours_named_in(pickle.dumps(VALUES[name](), protocol))
        assert named
        assert named <= PUBLIC_MODULES


@pytest.mark.parametrize("name", KEYS)
def test_a_pickled_key_keeps_its_bytes(name: str):
    """State under a key of pickled objects would be lost to a program that wrote other bytes."""
    assert Types.PICKLED_BYTE_ARRAY().freeze_key(DURABLE[name]()).hex() == KEYS[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_copy_is_equal(name: str):
    """`copy` asks a value for its pickle, too."""
    assert comparable(copy.deepcopy(VALUES[name]())) == comparable(VALUES[name]())


def test_every_public_class_that_is_a_value_has_a_pickle_here():
    """A new one is added, and is thereby looked after."""
    covered = {type(make()) for make in VALUES.values()}
    shown = {
        getattr(door, name) for door in (flink, cdc, stores, upsert, views) for name in door.__all__
    }
    values = {
        each
        for each in shown
        if isinstance(each, type)
        and (issubclass(each, (tuple, flink.StateDescriptor, stores.StoreDescriptor)))
    }

    assert values - covered == {flink.StateDescriptor, stores.StoreDescriptor}
