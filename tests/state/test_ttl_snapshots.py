# SPDX-License-Identifier: Apache-2.0
"""What a full snapshot leaves out."""

from ttl_support import KINDS, PLAIN_READ, builder, call, expiring, list_, map_


def snapshot_of(kind, config, fill):
    """A state that `fill` filled, and the same read from its snapshot, at time 100, with no TTL."""
    state = expiring(kind, config)
    fill(state)
    return state, state.at(100).restored(kind())


FILTERED = builder().cleanup_full_snapshot().disable_cleanup_in_background().build()
UNFILTERED = builder().disable_cleanup_in_background().build()


def two_keys(kind):
    """Fills key "k" at 0 and key "b" at 50."""

    def fill(state):
        call(state, PLAIN_READ[kind].write)
        call(state.at(50).of("b"), PLAIN_READ[kind].write)

    return fill


@KINDS
def test_a_full_snapshot_leaves_expired_entries_out(kind):
    """cleanup_full_snapshot() filters what is written, not what is stored."""
    state, restored = snapshot_of(kind, FILTERED, two_keys(kind))
    assert (2, 1) == (state.entries(), restored.entries())
    assert PLAIN_READ[kind].seen == call(restored.of("b"), PLAIN_READ[kind].read)


@KINDS
def test_without_the_filter_a_snapshot_keeps_expired_entries(kind):
    """Only cleanup_full_snapshot() leaves them out."""
    state, restored = snapshot_of(kind, UNFILTERED, two_keys(kind))
    assert (2, 2) == (state.entries(), restored.entries())


def test_a_full_snapshot_drops_the_expired_prefix_of_a_list():
    """Everything from the first alive element on is kept, expired or not."""

    def fill(state):
        state.add_all([1, 2])
        state.at(50).add(3)
        state.at(0).add(4)
        state.at(50).add(5)

    _, restored = snapshot_of(list_, FILTERED, fill)
    assert [3, 4, 5] == restored.get()


def test_a_full_snapshot_judges_map_entries_one_by_one():
    """A map has no prefix."""

    def fill(state):
        state.at(50).put("a", 1)
        state.at(0).put("b", 2)
        state.at(50).put("c", 3)

    _, restored = snapshot_of(map_, FILTERED, fill)
    assert [("a", 1), ("c", 3)] == restored.items()
