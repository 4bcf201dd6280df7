# SPDX-License-Identifier: Apache-2.0
"""The records of a table's changes, decoded and upserted, are the table.

The model is a table in a dict and a connector that logs its changes as Debezium does: with
placeholders for what an update left alone, a delete and a create for a changed key, tombstones,
and everything since the last acknowledgement once more after a restart.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from debezium_support import PLACEHOLDER, envelope, record, source, wrapped
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Types
from pyflinklike.cdc import decode_debezium
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction

ROW = Types.ROW_NAMED(["id", "n", "body"], [Types.LONG(), Types.LONG(), Types.STRING()])


class Connector:
    """A table with the key `id`, and the records of its changes.

    Args:
        full: Whether whole rows are logged before a change (REPLICA IDENTITY FULL).
        wrap: Whether envelopes come with their schema.
    """

    def __init__(self, *, full, wrap):
        self.table = {}
        self.records = []
        self._full = full
        self._wrap = wrap
        self._lsn = 0
        self._acknowledged = 0

    def put(self, key, n, body):
        """Insert, or update and leave `body` alone where it is None."""
        before, after = self.table.get(key), {"id": key, "n": n, "body": body}
        logged = after
        if before is not None and body is None:
            after = {**after, "body": before["body"]}
            logged = {**after, "body": before["body"] and PLACEHOLDER}
        self.table[key] = after
        self._log(key, "c" if before is None else "u", before, logged)

    def delete(self, key):
        """Delete, and write a tombstone."""
        before = self.table.pop(key, None)
        if before is not None:
            self._log(key, "d", before, None)
            self.records.append(record(None, {"id": key}, offset=len(self.records)))

    def move(self, key, to):
        """Change a key, and write all of the row."""
        row = self.table.get(key)
        if row is not None and to not in self.table:
            self.delete(key)
            self.table[to] = {**row, "id": to}
            self._log(to, "c", None, self.table[to])

    def acknowledge(self):
        """What is written so far will not come again."""
        self._acknowledged = len(self.records)

    def restart(self):
        """Write what was not acknowledged once more."""
        for again in self.records[self._acknowledged :]:
            self.records.append({**again, "offset": len(self.records)})

    def _log(self, key, op, before, after):
        self._lsn += 1
        full = before is not None and (self._full or op == "d")
        place = source(lsn=self._lsn)
        value = envelope(op, before if full else None, after, source=place)
        self.records.append(
            record(wrapped(value) if self._wrap else value, {"id": key}, offset=len(self.records))
        )


numbers = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("put"), numbers, numbers, st.none() | st.sampled_from(["a", "b"])),
    st.tuples(st.just("delete"), numbers),
    st.tuples(st.just("move"), numbers, numbers),
    st.tuples(st.sampled_from(["acknowledge", "restart"])),
)


def upserted(events, row=ROW):
    """The rows that the events of a table leave, and how often each is there."""
    function = UpsertFunction(value="after", order_key="order_key", value_type=row)
    harness = KeyedProcessHarness(function, key_selector=lambda event: event.key)
    for event in events:
        harness.process_element(event)
    sums = {}
    for change in harness.output:
        row = None if change.value is None else tuple(change.value)
        sums[change.key, row, change.error] = (
            sums.get((change.key, row, change.error), 0) + change.diff
        )
    return {each: diff for each, diff in sums.items() if diff}


def rows_of(table):
    """The table in the same form."""
    return {(key, tuple(row.values()), None): 1 for key, row in table.items()}


@given(st.lists(steps, max_size=25), st.booleans(), st.booleans())
def test_the_upserted_events_of_a_table_are_the_table(history, full, wrap):
    """Whatever its history, whether or not rows before are logged, repeated or not."""
    connector = Connector(full=full, wrap=wrap)
    for name, *arguments in history:
        getattr(connector, name)(*arguments)

    events = [decode_debezium(each) for each in connector.records]

    assert rows_of(connector.table) == upserted(events)


@given(st.lists(steps, max_size=20), st.randoms(use_true_random=False))
def test_the_events_may_come_in_any_order_where_whole_rows_are_logged(history, chance):
    """As from several partitions that are read at different speeds."""
    connector = Connector(full=True, wrap=False)
    for name, *arguments in history:
        getattr(connector, name)(*arguments)
    events = [decode_debezium(each) for each in connector.records]
    chance.shuffle(events)

    assert rows_of(connector.table) == upserted(events)


def test_a_damaged_record_takes_the_place_of_its_row_until_the_next_one():
    """Nothing is lost silently: neither the error nor the row after it."""
    connector = Connector(full=False, wrap=False)
    connector.put(1, 0, "a")
    damaged = {**record(None, {"id": 1}, offset=9), "value": '{"op": '}
    broken = decode_debezium(damaged, on_error="inline")
    first = decode_debezium(connector.records[0])
    connector.put(1, 1, "b")
    second = decode_debezium(connector.records[1])

    ((key, row, error),) = upserted([first, broken])

    assert (1, None) == (key, row)
    assert error.startswith("ValueDecodeError: a value must be the JSON of a Debezium envelope")
    assert rows_of(connector.table) == upserted([first, broken, second])


def test_a_column_that_nobody_knows_is_an_error_and_not_null():
    """The stream begins in the middle of the row's life."""
    after = {"id": 1, "n": 5, "body": PLACEHOLDER}
    event = decode_debezium(record(envelope("u", None, after)))

    ((key, row, error),) = upserted([event])

    assert (1, None) == (key, row)
    assert "got ['body']" in error


@pytest.mark.parametrize("schema", [None, "id decimal(20,2), n int"])
def test_keys_that_one_double_stands_for_are_two_rows(schema):
    """Decimals come as JSON numbers with `decimal.format=NUMERIC`."""
    keys = [Decimal("12345678901234567.88"), Decimal("12345678901234567.89")]
    row = Types.ROW_NAMED(["id", "n"], [Types.BIG_DEC(), Types.LONG()])
    numbers = [record(envelope("c", None, {"id": 0, "n": at})) for at in range(2)]
    events = [
        decode_debezium(
            {
                **each,
                "key": f'{{"id":{key}}}',
                "value": each["value"].replace('"id": 0', f'"id": {key}'),
            },
            schema=schema,
        )
        for each, key in zip(numbers, keys)
    ]

    assert {(key, (key, at), None): 1 for at, key in enumerate(keys)} == upserted(events, row)
