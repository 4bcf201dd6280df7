# SPDX-License-Identifier: Apache-2.0
"""The changes of `UpsertFunction` add up to a dict."""

import importlib.util
import tempfile
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from upsert_support import element, harness, ordered

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, Row

_DIRECTORY = tempfile.TemporaryDirectory()
BACKENDS = [HashMapStateBackend()]
if importlib.util.find_spec("rocksdict") is not None:
    BACKENDS.append(EmbeddedRocksDBStateBackend())
    BACKENDS[1].set_db_storage_paths(_DIRECTORY.name)

UPSERTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from(["x", "y", "", 7])),
    max_size=14,
)


def accumulated(rows):
    """The sum of the diffs of each record; each is 0 or 1 after every row, and a key has one."""
    sums, keys = Counter(), Counter()
    for row in rows:
        record = (row.key, row.value, row.error)
        sums[record] += row.diff
        keys[row.key] += row.diff
        assert sums[record] in (0, 1)
        assert keys[row.key] in (0, 1)
        assert (row.diff == 1) == (row.op in ("insert", "update_after"))
        assert row.op in ("update_before", "delete") or row.diff == 1
    return {key: error or value for (key, value, error), n in sums.items() if n}


def is_error(value):
    """Whether a value of `UPSERTS` does not fit."""
    return value == 7


def expected_of(upserts):
    """The value of each key with the highest order key."""
    last = {}
    for order, (key, value) in upserts:
        if key not in last or order > last[key][0]:
            last[key] = (order, value)
    return {key: value for key, (_, value) in last.items() if value is not None}


def matches(expected, actual):
    """Whether records are those; any error for the value that does not fit."""
    shown = {k: 7 if str(v).startswith("ValueDecodeError") else v for k, v in actual.items()}
    return expected == shown


@given(UPSERTS, st.randoms(use_true_random=False), st.data())
def test_the_changes_add_up_to_a_dict(upserts, random, data):
    """In any order of arrival, restarted at any moment and on any backend."""
    numbered = list(enumerate(upserts))
    arriving = random.sample(numbered, len(numbered)) + random.sample(numbered, len(numbered) // 2)
    h, rows = ordered(backend=BACKENDS[0]), []
    for order, (key, value) in arriving:
        rows += h.process_element(element(value, (order // 3, order % 3), key=key))
        if data.draw(st.integers(0, 3)) == 0:
            blob = h.snapshot()
            h.close()
            h = ordered(backend=random.choice(BACKENDS), restore=blob)
        accumulated(rows)
    h.close()

    assert matches(expected_of(numbered), accumulated(rows))


@given(UPSERTS)
def test_without_order_keys_the_changes_add_up_to_the_last(upserts):
    """The later arrival wins."""
    h = harness()
    for key, value in upserts:
        h.process_element(element(value, key=key))

    assert matches(expected_of(list(enumerate(upserts))), accumulated(h.output))


@given(UPSERTS, st.randoms(use_true_random=False))
def test_dropped_errors_are_as_if_they_had_not_come(upserts, random):
    """Whatever order they come in."""
    numbered = list(enumerate(upserts))
    h = ordered(on_error="drop")
    for order, (key, value) in random.sample(numbered, len(numbered)):
        h.process_element(element(value, order, key=key))
    good = [each for each in numbered if not is_error(each[1][1])]
    rows = [Row(**row.as_dict(), error=None) for row in h.output]

    assert expected_of(good) == accumulated(rows)
