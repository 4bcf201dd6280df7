# SPDX-License-Identifier: Apache-2.0
"""When a log outweighs what is alive in it: the limits, byte by byte."""

import attrs
import pytest

from pyflinklike._changelog.key_group_log import is_outgrown
from pyflinklike._changelog.log_storage import Head

FLOOR = 4096
BLANK = Head.blank(8)


def logged(size, entries=1, **snapshot):
    """The head of a log of that many bytes and entries."""
    return attrs.evolve(BLANK, log_bytes=size, log_entries=entries, **snapshot)


def test_a_log_has_room_before_it_is_compacted():
    """Even if nothing is alive in it; not a byte more."""
    room = [is_outgrown(logged(size), 0, 0, 0) for size in (FLOOR, FLOOR + 1)]

    assert [False, True] == room


def test_what_is_written_now_has_room_too():
    """A snapshot would have to write it again."""
    room = [is_outgrown(logged(FLOOR + size), 0, 0, 10_000) for size in (10_000, 10_001)]

    assert [False, True] == room


@pytest.mark.parametrize(
    ("index", "limit"),
    [(0, 2.5), (1, 2.4921875), (32, 2.25), (63, 2.0078125), (64, 2.5), (96, 2.25)],
)
def test_the_limit_is_between_2_and_2_5_by_key_group(index, limit):
    """So that groups that fill at one pace are not compacted in one batch."""
    alive, each = 1000, 1024
    most = FLOOR + int(limit * alive * each)
    snapshot = {"snapshot_bytes": each, "snapshot_entries": 1}
    found = [is_outgrown(logged(size, **snapshot), index, alive, 0) for size in (most, most + 1)]

    assert [False, True] == found


def test_what_is_alive_weighs_what_it_weighed_in_the_last_snapshot():
    """Not what entries weigh in the log, where they may be written one by one."""
    log = logged(100_000, 10, snapshot_bytes=1_000, snapshot_entries=100)
    weighed = [is_outgrown(log, 0, alive, 0) for alive in (3_836, 3_837)]

    assert [True, False] == weighed


def test_without_a_snapshot_it_weighs_what_entries_weigh_in_the_log():
    """There is nothing better to go by."""
    log = logged(100_000, 1_000)
    weighed = [is_outgrown(log, 0, alive, 0) for alive in (383, 384)]

    assert [True, False] == weighed


def test_a_log_of_cleared_keys_alone_is_weighed():
    """It may have no entries at all."""
    assert is_outgrown(logged(FLOOR + 1, entries=0), 0, 0, 0)
