# SPDX-License-Identifier: Apache-2.0
"""Whatever a request says, the answer is JSON with a status that blames the right side.

`PYTHONPATH=tests/support:. python tests/queryable_state/test_http_fuzz.py 200000` tries so many requests at random.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from all_states import AllStates
from asgi_support import answer_of

from pyflinklike import (
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.queryable_state import QueryableState
from pyflinklike.queryable_state.http import app
from pyflinklike.queryable_state.http_values import VERBS
from pyflinklike.state_processor import write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor, WindowStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.views import MaterializedView

TEXT, LONG = Types.STRING(), Types.LONG()
KEYS: dict[str, tuple[Any, Any]] = {
    "string": (TEXT, "ann"),
    "long": (LONG, 2**63 - 1),
    "int": (Types.INT(), -7),
    "short": (Types.SHORT(), 3),
    "byte": (Types.BYTE(), 1),
    "boolean": (Types.BOOLEAN(), True),
    "float": (Types.FLOAT(), 0.5),
    "double": (Types.DOUBLE(), 0.1),
    "decimal": (Types.BIG_DEC(), Decimal("1.50")),
    "big": (Types.BIG_INT(), 2**70),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    "date": (Types.SQL_DATE(), dt.date(2026, 11, 23)),
    "timestamp": (Types.SQL_TIMESTAMP(), dt.datetime(2026, 11, 23, 2)),
    "tuple": (Types.TUPLE([TEXT, LONG]), ("ann", 3)),
    "row": (Types.ROW_NAMED(["a", "b"], [TEXT, LONG]), Row(a="ann", b=3)),
    "deep": (Types.TUPLE([LONG, Types.TUPLE([TEXT, Types.SQL_DATE()])]), (1, ("a", dt.date.min))),
}


class OfKeys(KeyedProcessFunction):
    """A state and a map, and a store whose keys are the stream's, of both scopes."""

    def __init__(self, key_type: Any) -> None:
        self.key_type = key_type

    def open(self, runtime_context: Any) -> None:
        self.v = runtime_context.get_state(ValueStateDescriptor("v", self.key_type))
        self.m = runtime_context.get_map_state(MapStateDescriptor("m", TEXT, LONG))
        self.stores = []
        try:
            for scope in ("key", "partition"):
                self.stores += [
                    runtime_context.get_store(
                        KeyValueStoreDescriptor(f"kv_{scope}", self.key_type, LONG, scope=scope)
                    ),
                    runtime_context.get_store(
                        WindowStoreDescriptor(
                            f"w_{scope}", self.key_type, LONG, window_size=10, scope=scope
                        )
                    ),
                ]
        except Exception:
            self.stores = []

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.v.update(value)
        for time in (7, 2**63 - 1):
            ctx.timer_service().register_event_time_timer(time)
            ctx.timer_service().register_processing_time_timer(time)
        self.m.put("é", 1)
        for each in self.stores:
            each.put(value, 1, *([10] if type(each).__name__.startswith("Window") else []))
        return []


class BatchResult:
    """Applications over savepoints of every kind of key, one with every kind of state, and a view."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        place = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.paths: list[list[tuple[str, tuple[str, ...]]]] = []
        self.applications = []
        for name, (key_type, key) in KEYS.items():
            harness = KeyedProcessHarness(OfKeys(key_type), lambda each: each, key_type=key_type)
            self._add(place / name, harness, [key])
        harness = KeyedProcessHarness(AllStates(), lambda row: row.user, key_type=TEXT)
        self._add(place / "all", harness, [Row(user=f"u{n % 3}", n=n) for n in range(1, 30)])
        view = self.stack.enter_context(MaterializedView("v", key="k", path=place / "view"))
        view.apply([{"k": "ann", "n": 1}, {"k": 3, "n": 2}, {"k": 0.5, "n": 2}], 4)
        self.applications.append(app(view, max_timeout=1))
        self.paths.append([("/rows", ("key",))])

    def _add(self, place: Path, harness: Any, values: Any) -> None:
        with harness:
            harness.process_elements([(each, None) for each in values])
            write_savepoint(harness, place)
        state = self.stack.enter_context(QueryableState.open_savepoint(place, allow_scan=True))
        self.applications.append(app(state, max_timeout=1, max_items=50))
        known = [("/states", ()), ("/timers", ("key",)), ("/timers", TIMERS)]
        for info in state.states():
            if not info.is_store:
                known += [(f"/states/{info.name}", ("key",))] * 3
                continue
            current = ("current",) if info.options["scope"] == "key" else ()
            for name, verb in VERBS[info.kind].items():
                wanted = (*current, *verb.keys, *verb.times, *(PAGING if verb.many else ()))
                known.append((f"/stores/{info.name}/{name}", wanted))
        self.paths.append(known)


TIMERS = ("domain", "from", "to", "limit", "reverse", "after")
PAGING = ("limit", "reverse", "after")
NAMES = [
    *rb"""
    key current namespace from to prefix limit reverse after window_start as_of key_from key_to start
    end earliest_end latest_start latest_end domain at_least_batch max_age timeout form
    """.split(),
    b"",
]
TYPED = rb"""
    0.5 0.1 0x00ff 2026-11-23 ["ann",3] [1,["a","0001-01-01"]] A s 3 -7 9223372036854775807 k1 v 10
""".split()
VALUES = [
    *rb"""
    ann "ann" u1 k1 A 0 1 -1 3 0.5 0.1 1.5 true null NaN -Infinity 1e999 1e99999999999999999999
    9223372036854775807 9223372036854775808 -9223372036854775809 1180591620717411303424
    9007199254740993.0 0.99999999999999999 ["ann",3] ["ann",3,4] [1,["a","0001-01-01"]] {} [] [0,10]
    {"a":"ann","b":3} "\ud800" 0x00ff "0x0" %ff%fe %00 %C3%A9 % %zz 2026-11-23 2026-11-23T02:00:00
    2026-11-23T02:00:00Z 0001-01-01T00:00:00%2B14:00 9999-12-31T23:59:59-14:00 a.1
    event_time processing_time
    """.split(),
    b"",
    b"9" * 20,
    b"9" * 5000,
    b"[" * 3000,
    b"[" * 400 + b"]" * 400,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    *(b"\xff\xfe", "é".encode(), b"\xd9\xa3", b"\xc2\xb2"),
]
ELSEWHERE = ("/", "/health", "/states", "/rows", "//", "", "/stores/kv/none")
BOUNDS = (b"at_least_batch", b"max_age", b"timeout")
METHODS = (*["GET"] * 20, "HEAD", "POST", "", "PROPFIND", "gét")
SERVED: list[BatchResult] = []


def served() -> BatchResult:
    """Made once."""
    if not SERVED:
        SERVED.append(BatchResult())
    return SERVED[0]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Any:
    yield
    for each in SERVED:
        each.stack.close()
    SERVED.clear()


async def status_of(application: Any, *request: Any) -> int:
    """Of an answer, which must be JSON of the length that it says."""
    status, headers, body = await answer_of(application, *request)
    if request[2] != "HEAD":
        found = json.loads(body.decode("utf-8"), parse_constant=pytest.fail)
        assert (int(headers["content-length"]), dict) == (len(body), type(found))
        assert (status >= 400) is ("error" in found)
    return status


async def request(draw: Dice) -> int:
    """One request, as chance has it."""
    some = served()
    at = draw.index(len(some.applications))
    path, wanted = draw.of([*some.paths[at], *[(each, ()) for each in ELSEWHERE]])
    if not draw.index(10):
        path = draw.of(["", path]) + draw.bytes(20).decode("utf-8", "replace")
    # Most parameters are those that are known, or nothing would come further than their names.
    names = [each.encode() for each in wanted if each not in PAGING or not draw.index(6)]
    names += [draw.of(BOUNDS)] * (not draw.index(6))
    if not draw.index(10):
        names.append(draw.of(NAMES) if draw.index(2) else draw.bytes(8))
    good = [b"ann", b"u1", b"1", b"true", *TYPED]
    parts = []
    for name in names:
        is_value = draw.index(8)
        is_good = draw.index(3)
        values = good if is_value and is_good else VALUES
        parts.append(name + b"=" + (draw.of(values) if is_value else draw.bytes(20)))
    host = draw.bytes(10)
    return await status_of(
        some.applications[at],
        path,
        b"&".join(parts),
        draw.of(METHODS),
        {"host": host, "authorization": host},
    )


class Dice:
    """Chance chooses; Hypothesis would come to fewer combinations in the time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def index(self, end: int) -> int:
        return self.random.randrange(end)

    def of(self, some: Any) -> Any:
        return self.random.choice(some)

    def bytes(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randrange(most + 1))


async def statuses_of(draw: Dice, count: int) -> Counter[int]:
    """How often each status came of so many requests."""
    return Counter([await request(draw) for _ in range(count)])


def test_no_request_of_thousands_is_an_error_of_the_server():
    """State that is whole gives no 500, whatever is asked of it; most kinds of answers came."""
    statuses = asyncio.run(statuses_of(Dice(26), 4_000))
    assert (0, True) == (statuses[500], {200, 400, 404, 405} <= set(statuses))


if __name__ == "__main__":
    count = int(sys.argv[1])
    sys.stdout.write(f"{count} {asyncio.run(statuses_of(Dice(0), count))}\n")
    SERVED[0].stack.close()
