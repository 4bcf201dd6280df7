# SPDX-License-Identifier: Apache-2.0
"""The functions of `kafka_driver`, their input, and in plain Python what must come of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from random import Random
from typing import Any

from spark_support import pickle_by_value

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.upsert import UpsertFunction

pickle_by_value(__name__)

ROW = "id bigint, name string, price long"
CHANGE = f"key bigint, op string, value struct<{ROW}>, diff int, error string"
GAP = 20_000
_LAST = 10_000_000
_KINDS = ["id", "name", "price"], [Types.LONG(), Types.STRING(), Types.LONG()]
KeyValue = tuple[bytes, bytes | None]


class Sessions(KeyedProcessFunction):
    """A user's clicks without a pause of `GAP` ms: the first, the last, and how many."""

    def open(self, runtime_context: Any) -> None:
        kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.session = runtime_context.get_state(ValueStateDescriptor("session", kind))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        at = ctx.timestamp()
        first, last, count = self.session.value() or (at, at, 0)
        if at >= last + GAP:
            yield ctx.get_current_key(), first, last, count
            first, count = at, 0
        self.session.update((first, at, count + 1))
        ctx.timer_service().register_event_time_timer(at + GAP)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        session = self.session.value()
        if session is not None and timestamp == session[1] + GAP:
            self.session.clear()
            yield ctx.get_current_key(), *session


def item_upsert() -> UpsertFunction:
    """What applies the events of items."""
    return UpsertFunction(value="after", order_key="order_key", value_type=Types.ROW_NAMED(*_KINDS))


def clicks(count: int, seed: int = 1) -> tuple[list[KeyValue], Counter[tuple[Any, ...]]]:
    """Clicks in the order of their times, and their sessions; the last one ends all others."""
    random = Random(seed)
    records, of_user = [], defaultdict(list)
    for number in range(count):
        user, at = f"user {random.randrange(40)}", number * 300
        of_user[user].append(at)
        records.append(_click(user, at))
    records.append(_click("nobody", _LAST))
    found: Counter[tuple[Any, ...]] = Counter()
    for user, times in of_user.items():
        first, held = times[0], 0
        for at, following in zip(times, [*times[1:], _LAST]):
            held += 1
            if following >= at + GAP:
                found[user, first, at, held] += 1
                first, held = following, 0
    return records, found


def _click(user: str, milliseconds: int) -> KeyValue:
    at = datetime.fromtimestamp(milliseconds / 1_000, timezone.utc)
    return user.encode(), json.dumps({"user": user, "at": at.isoformat()}).encode()


def changes(count: int, seed: int = 2) -> tuple[list[KeyValue], dict[int, dict[str, Any]]]:
    """Events of items as Debezium writes them, with tombstones, and the table after them."""
    random = Random(seed)
    records: list[KeyValue] = []
    table: dict[int, dict[str, Any]] = {}
    for number in range(1, count + 1):
        item = random.randrange(150)
        before, after = table.pop(item, None), None
        if before is None or random.random() < 0.8:
            after = table[item] = {"id": item, "name": f"name {number}", "price": number}
        kind = "c" if before is None else "d" if after is None else "u"
        source = {"connector": "postgresql", "lsn": number * 8, "ts_ms": number}
        event = {"op": kind, "before": before, "after": after, "source": source, "ts_ms": number}
        key = json.dumps({"id": item}).encode()
        records.append((key, json.dumps(event).encode()))
        if after is None:
            records.append((key, None))
    return records, table
