# SPDX-License-Identifier: Apache-2.0
"""A restart with another program whose first micro-batches have timers only: the record lags behind.

It is written with records, for Spark calls the place where it is kept with records only.
"""

import pytest
from replay_support import log_of, rows_of
from replica_support import FollowedQuery, replica_of

from pyflinklike import Types, ValueStateDescriptor
from pyflinklike._changelog.operator_record import RECORD_AT, OperatorRecord
from pyflinklike.errors import IncompatibleStateError, UnknownStateError

VALUE = ValueStateDescriptor("v", Types.INT())
GROWN = ValueStateDescriptor("v", Types.LONG())


@pytest.fixture
def query():
    """With an entry of the former program, and one that a timer of the next one wrote."""
    query = FollowedQuery([VALUE], 1)
    query.batch([("a", lambda on: on["v"].update(1))])
    query.restart([GROWN, ValueStateDescriptor("new", Types.STRING())])
    query.batch([("b", lambda on: (on["v"].update(2**40), on["new"].update("n")))], of_timers=True)
    return query


def read(query, name="v"):
    """The rows by the record that is in the checkpoint."""
    record = OperatorRecord.from_bytes(query.called.blobs[RECORD_AT], "tested")
    rows = rows_of(record, name, log_of(query.stores[0]))
    return [(row["k"], row["value"]) for row in rows]


def test_values_that_have_grown_are_not_narrowed(query):
    """What could not be shown is an error that says when it can be."""
    with pytest.raises(IncompatibleStateError, match="read it after the next one with records"):
        read(query)


def test_a_new_state_is_not_known_yet(query):
    """It is, once a record came."""
    with pytest.raises(UnknownStateError, match="'new'"):
        read(query, "new")
    query.batch([("c", lambda on: None)])
    assert ([("b", "n")], [("a", 1), ("b", 2**40)]) == (read(query, "new"), read(query))


def test_a_replica_reads_on_once_records_come(query):
    """Until then what has grown is an error, and what has not is answered."""
    with replica_of(query) as replica:
        with pytest.raises(IncompatibleStateError, match="'v'"):
            replica["v"].get("b")
        query.batch([("c", lambda on: None)])
        replica.refresh()
        assert (1, 2**40, "n") == (
            replica["v"].get("a"),
            replica["v"].get("b"),
            replica["new"].get("b"),
        )
