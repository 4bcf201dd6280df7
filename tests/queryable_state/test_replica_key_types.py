# SPDX-License-Identifier: Apache-2.0
"""A key of any type is found in a savepoint: by the function, a replica, the command line and HTTP."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from urllib.parse import quote

import pytest
from asgi_support import ask

from pyflinklike import (
    Instant,
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import IncompatibleStateError, PyflinklikeError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.queryable_state.http import app
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

T = Types
TEXT, LONG = T.STRING(), T.LONG()
NOON = Instant(1_700_000_000, 0)
NAMED = T.ROW_NAMED(["a", "b"], [TEXT, LONG])
TYPED = {
    "string": (TEXT, "ann", "ann"),
    "char": (T.CHAR(), "a", "a"),
    "byte": (T.BYTE(), 5, "5"),
    "short": (T.SHORT(), 5, "5"),
    "int": (T.INT(), 5, "5"),
    "long": (LONG, 5, "5"),
    "boolean": (T.BOOLEAN(), True, "true"),
    "float": (T.FLOAT(), 0.5, "0.5"),
    "double": (T.DOUBLE(), 0.1, "0.1"),
    "big int": (T.BIG_INT(), 2**70, str(2**70)),
    "big dec": (T.BIG_DEC(), Decimal("1.50"), "1.50"),
    "bytes": (T.PRIMITIVE_ARRAY(T.BYTE()), b"\x00\xff", "0x00ff"),
    "date": (T.SQL_DATE(), dt.date(2026, 11, 23), "2026-11-23"),
    "time": (T.SQL_TIME(), dt.time(2, 3, 4, 5000), "02:03:04.005"),
    "timestamp": (T.SQL_TIMESTAMP(), dt.datetime(2026, 11, 23, 2), "2026-11-23T02:00:00"),
    "instant": (T.INSTANT(), NOON, "2023-11-14T22:13:20Z"),
    "tuple": (T.TUPLE([TEXT, LONG]), ("ann", 3), '["ann",3]'),
    "tuple of times": (
        T.TUPLE([T.SQL_TIME(), T.INSTANT()]),
        (dt.time(2), NOON),
        '["02:00",1700000000000]',
    ),
    "row": (T.ROW([TEXT, LONG]), Row(f0="ann", f1=3), '["ann",3]'),
    "named row": (NAMED, Row(a="ann", b=3), '{"b":3,"a":"ann"}'),
    "row of rows": (T.ROW_NAMED(["c"], [NAMED]), Row(c=Row(a="x", b=1)), '[["x",1]]'),
}
OTHERS = {
    "list": (T.LIST(LONG), [1, 2]),
    "map": (T.MAP(TEXT, LONG), {"a": 1}),
    "array": (T.PRIMITIVE_ARRAY(LONG), [1, 2]),
    "array of objects": (T.OBJECT_ARRAY(TEXT), ["a"]),
    "pickled": (T.PICKLED_BYTE_ARRAY(), ("a", 1)),
}


class Counted(KeyedProcessFunction):
    """Counts the elements of a key, also with timers and in a store."""

    def __init__(self, key_type):
        self.key_type = key_type

    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", LONG))
        self.entries = runtime_context.get_map_state(MapStateDescriptor("m", TEXT, LONG))
        try:
            shared = KeyValueStoreDescriptor("s", self.key_type, LONG, scope="partition")
            self.store = runtime_context.get_store(shared)
        except PyflinklikeError:  # a type without an order
            self.store = None

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + 1)
        self.entries.put("x", 1)
        ctx.timer_service().register_event_time_timer(9)
        if self.store is not None:
            self.store.put(value, self.n.value())
        yield ctx.get_current_key(), self.n.value()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def saved(path, key_type, *keys):
    """A savepoint in which each of these keys has something."""
    function = Counted(key_type)
    with KeyedProcessHarness(function, lambda key: key, key_type=key_type) as harness:
        harness.process_elements([(key, None) for key in keys])
        write_savepoint(harness, path / "saved")
    return path / "saved"


def answered(application, path, text):
    """Status and body."""
    status, _, body = ask(application, path, b"key=" + quote(text).encode())
    return status, json.loads(body)


@pytest.mark.parametrize("name", [*TYPED, *OTHERS])
def test_a_key_of_any_type_goes_on_from_a_savepoint(name, tmp_path):
    """Its state, and its timer."""
    key_type, key = {**TYPED, **OTHERS}[name][:2]
    taken = open_savepoint(saved(tmp_path, key_type, key))
    function = Counted(key_type)
    with KeyedProcessHarness(
        function, lambda key: key, key_type=key_type, restore=taken
    ) as harness:
        found = [*harness.process_elements([(key, None)]), *harness.process_watermark(10)]
    assert [(key, 2), (key, 9)] == found


@pytest.mark.parametrize("name", [*TYPED, *OTHERS])
def test_a_key_of_any_type_is_asked_of_a_replica(name, tmp_path):
    """By itself, and among all."""
    key_type, key = {**TYPED, **OTHERS}[name][:2]
    with QueryableState.open_savepoint(
        saved(tmp_path, key_type, key), allow_scan=True, allow_pickle=True
    ) as state:
        assert (1, [(key, 1)]) == (state["n"].get(key), list(state["n"].items()))
        assert [key] == [each.key for each in state.timers().get(key)]
        assert [key] == [each.key for each in state.timers().all()]


@pytest.mark.parametrize("name", TYPED)
def test_a_key_of_any_type_is_typed(name, tmp_path):
    """On the command line, and in a URL; also as a key of a store."""
    testing = pytest.importorskip("click.testing")
    command = pytest.importorskip("pyflinklike.cli.command", exc_type=ImportError)
    key_type, key, text = TYPED[name]
    path = saved(tmp_path, key_type, key)
    told = testing.CliRunner().invoke(
        command.program, ["state", "get", str(path), "n", text, "--json"]
    )
    assert (0, 1) == (told.exit_code, json.loads(told.stdout)["value"])
    with QueryableState.open_savepoint(path, allow_scan=True) as state:
        served = app(state)
        status, body = answered(served, "/states/n", text)
        assert (200, 1) == (status, body["value"])
        assert 1 == len(answered(served, "/timers", text)[1]["items"])
        if name not in ("big dec", "named row"):  # none of a store, which takes rows as arrays
            assert (200, {"value": 1}) == answered(served, "/stores/s/get", text)


@pytest.mark.parametrize("instant", [Instant(5, 1), Instant(2**50, 0)])
def test_a_savepoint_refuses_instants_that_it_would_make_another_key(instant, tmp_path):
    """When it is taken, and not when it is restored."""
    with pytest.raises(IncompatibleStateError, match="to the microsecond"):
        saved(tmp_path, T.INSTANT(), instant)
