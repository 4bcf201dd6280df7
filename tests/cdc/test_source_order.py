# SPDX-License-Identifier: Apache-2.0
"""Order keys compare as the positions in each database's log do."""

from __future__ import annotations

import json

import pytest
from debezium_support import envelope, record, source
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.cdc import decode_debezium
from pyflinklike.cdc.change_event import is_snapshot, offset_order, source_order


def key_of(block, *, snapshot=False, offset=None):
    """The order key of a source block."""
    return source_order(block, snapshot=snapshot, offset=offset)


def hexadecimal(position):
    """An LSN as SQL Server writes it."""
    return "{:08x}:{:08x}:{:04x}".format(*position)


numbers = st.integers(0, 2**62)
sql_server_lsns = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)
)


def same_order(form, positions):
    """Whether the keys of all positions compare as the positions do."""
    return [a < b for a in positions for b in positions] == [
        key_of(form(a)) < key_of(form(b)) for a in positions for b in positions
    ]


@given(st.lists(numbers, max_size=6))
def test_postgresql_is_in_the_order_of_its_lsn(positions):
    """Also where no commit is known yet, and where there is no sequence."""
    assert same_order(lambda lsn: source(lsn=lsn), positions)
    assert same_order(lambda lsn: {"lsn": lsn}, positions)


@given(st.lists(st.tuples(st.integers(0, 2_000_000), numbers, st.integers(0, 9)), max_size=6))
def test_mysql_is_in_the_order_of_file_position_and_row(positions):
    """The number of the file counts, which outgrows its six digits."""
    assert same_order(
        lambda at: {"file": f"mysql-bin.{at[0]:06}", "pos": at[1], "row": at[2]}, positions
    )


@given(st.lists(st.tuples(sql_server_lsns, sql_server_lsns, st.integers(0, 3)), max_size=6))
def test_sql_server_is_in_the_order_of_commit_change_and_event(positions):
    """Each LSN is three hexadecimal numbers."""
    assert same_order(
        lambda at: {
            "commit_lsn": hexadecimal(at[0]),
            "change_lsn": hexadecimal(at[1]),
            "event_serial_no": at[2],
        },
        positions,
    )


@given(st.lists(st.tuples(numbers, numbers, st.integers(0, 99), st.integers(0, 3)), max_size=6))
def test_oracle_is_in_the_order_of_commit_scn_scn_and_redo_record(positions):
    """SCNs are decimal texts, the redo record is hexadecimal."""
    assert same_order(
        lambda at: {
            "commit_scn": str(at[0]),
            "scn": str(at[1]),
            "rs_id": f" 0x00002c.00064abc.{at[2]:04x} ",
            "ssn": at[3],
        },
        positions,
    )


@given(st.lists(st.binary(min_size=2, max_size=40), max_size=6))
def test_xstream_is_in_the_order_of_the_position_of_its_records(positions):
    """Byte by byte, whatever the length."""
    assert same_order(lambda at: {"scn": "7", "lcr_position": at.hex() + "01"}, positions)


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 99)), max_size=6))
def test_mongodb_is_in_the_order_of_its_timestamp(positions):
    """Seconds, and the ordinal within them."""
    assert same_order(lambda at: {"ts_ms": at[0] * 1000, "ord": at[1]}, positions)


def test_the_changes_of_a_transaction_of_mongodb_are_in_the_order_of_their_offsets():
    """They all have the same timestamp."""
    block = {"ts_ms": 5000, "ord": 1}

    assert key_of(block, offset=7) < key_of(block, offset=8)


@st.composite
def logs(draw):
    """A log of PostgreSQL: a snapshot at some LSN and the changes streamed after it.

    Transactions overlap, also with the snapshot; the stream has those that commit after it,
    in the order of their commits, each with the commit before it.
    """
    count = draw(st.integers(1, 5))
    places = draw(st.permutations([n for n in range(count) for _ in range(3)]))
    at_snapshot = draw(st.integers(0, len(places)))
    changes = [[lsn for lsn, who in enumerate(places, 1) if who == n] for n in range(count)]
    streamed = sorted((each for each in changes if each[-1] > at_snapshot), key=lambda t: t[-1])
    last_commit, stream = None, []
    for *lsns, commit in streamed:
        sequence = [None if last_commit is None else str(last_commit)]
        stream += [source(lsn=lsn, sequence=json.dumps([*sequence, str(lsn)])) for lsn in lsns]
        last_commit = commit
    return source(lsn=at_snapshot, snapshot="true"), stream, last_commit


@given(logs())
def test_a_stream_of_postgresql_is_in_the_order_of_commits(log):
    """Though the changes of overlapping transactions alternate in the log."""
    _, stream, _ = log
    keys = [key_of(block) for block in stream]

    assert keys == sorted(set(keys))


@given(logs())
def test_a_snapshot_of_postgresql_is_below_what_commits_after_it(log):
    """Also changes that were logged before it, once a commit was streamed."""
    snapshot, stream, _ = log
    after_a_commit = [block for block in stream if json.loads(block["sequence"])[0] is not None]

    first = key_of(snapshot, snapshot=True)

    assert [] == [block for block in after_a_commit if key_of(block) <= first]


@pytest.mark.parametrize(
    ("read", "streamed"),
    [
        ({"lsn": 100}, {"lsn": 100}),
        (
            {"file": "b.000001", "pos": 4, "row": 0},
            {"file": "b.000001", "pos": 4, "row": 0},
        ),
        (
            {"commit_lsn": hexadecimal((1, 2, 3)), "change_lsn": None},
            {"commit_lsn": hexadecimal((1, 2, 3)), "change_lsn": hexadecimal((0, 1, 1))},
        ),
        ({"scn": "50"}, {"commit_scn": "50", "scn": "40"}),
        ({"ord": 1, "ts_ms": 1000}, {"ord": 1, "ts_ms": 1000}),
    ],
    ids=["postgresql", "mysql", "sqlserver", "oracle", "mongodb"],
)
def test_a_row_of_a_snapshot_is_below_a_change_at_the_same_position(read, streamed):
    """The snapshot saw what was before the change."""
    assert key_of(read, snapshot=True) < key_of(streamed)


def test_a_later_snapshot_is_above_the_changes_before_it():
    """A table that is read again repairs what was missed."""
    again = key_of(source(lsn=200, snapshot="true"), snapshot=True)

    assert key_of(source(lsn=100)) < again < key_of(source(lsn=201))


@pytest.mark.parametrize(
    ("flag", "op", "expected"),
    [
        ("false", "c", False),
        ("false", "r", True),
        ("true", "c", True),
        ("last", "r", True),
        ("incremental", "r", True),
        (True, "c", True),
        (False, "u", False),
        (None, "u", False),
    ],
)
def test_a_snapshot_is_told_by_its_flag_or_by_its_operation(flag, op, expected):
    """The flag is a text, that says false in five letters; once it was a boolean."""
    assert expected == is_snapshot({"snapshot": flag}, op)


@pytest.mark.parametrize("block", [{}, {"vgtid": "x"}, {"file": "CommitLog-6-12.log", "pos": 3}])
def test_a_block_without_a_known_position_has_no_order(block):
    """Then Kafka's offsets decide."""
    assert key_of(block) is None


@given(numbers, st.integers(0, 99), numbers)
def test_a_record_without_a_position_is_below_those_that_have_one(lsn, partition, offset):
    """So a tombstone never outdoes a change."""
    assert offset_order(partition, offset) < key_of({"lsn": lsn})


def test_the_same_change_delivered_twice_has_one_order():
    """A connector that restarts repeats changes at new offsets."""
    value = envelope("c", None, {"id": 1})
    first, again = (decode_debezium(record(value, offset=each)) for each in (3, 9))

    assert first.order_key == again.order_key


@pytest.mark.parametrize(
    "block",
    [
        {"lsn": "0/16B3748"},
        {"lsn": 1, "sequence": "[not json"},
        {"commit_lsn": "xx:yy:zz"},
        {"scn": "twelve"},
        {"file": "b.000001", "pos": "here"},
    ],
)
def test_a_position_of_another_form_is_an_error(block):
    """It is not taken for a record without a position, which would be below all others."""
    with pytest.raises(ValueError, match="the position of a change must be of its connector's"):
        decode_debezium(record(envelope("c", None, {"id": 1}, source=block)))
