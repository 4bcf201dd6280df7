# SPDX-License-Identifier: Apache-2.0
"""A log read under other declarations than it was written under, and logs that are not whole."""

import attrs
import pytest
from group_log_support import COUNT, Worker, read_cold

from pyflinklike._changelog.segments import Declaration
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import RESERVED_PREFIX, Setting
from pyflinklike.types import Types

STAMPED = attrs.evolve(COUNT, paired=True)


def test_ttl_switched_on_stamps_the_old_entries_with_the_time_of_the_restore(store):
    """And the next commit, though nothing changed, makes the stamps durable."""
    Worker().batch(store, a=1)
    first, later = Worker(STAMPED), Worker(STAMPED)
    first.now, later.now = 70, 90
    first.load(store)
    first.commit(store)
    later.load(store)

    assert {"a": (70, 1)} == first.contents() == later.contents()


def test_another_max_parallelism_is_refused(store):
    """Keys would be looked for in other groups."""
    Worker().batch(store, a=1)

    with pytest.raises(IncompatibleStateError, match=r"max_parallelism.*8, got 4"):
        Worker(max_parallelism=4).load(store)


SIZED = attrs.evolve(COUNT, settings=[Setting("the size", "5", remedy="use another name")])
RESIZED = attrs.evolve(COUNT, settings=[Setting("the size", "3", remedy="use another name")])
TAKES_FIVE = attrs.evolve(COUNT, settings=[Setting("the size", "3", accepts=("5",))])


def test_a_setting_that_changes_is_refused(store):
    """The message names the state, the setting, both values and the remedy."""
    Worker(SIZED).batch(store, a=1)

    expected = r"state 'count': restored state keeps the size, '5', got '3'; use another name"
    with pytest.raises(IncompatibleStateError, match=expected):
        Worker(RESIZED).load(store)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("count", "state 'count': .*; declare it as before, or use another name$"),
        (f"{RESERVED_PREFIX}event", "timers: .*; declare it as before, or begin a new checkpoint$"),
    ],
)
def test_another_name_is_the_remedy_where_there_is_a_name(name, told):
    """Timers have none."""
    kept = Declaration.of(attrs.evolve(COUNT, name=name), Types.STRING())

    with pytest.raises(IncompatibleStateError, match=told):
        kept.check(attrs.evolve(kept, key=Types.LONG().signature))


def test_a_setting_that_is_accepted_is_the_one_that_is_written_next(store):
    """So that a program which wants the former one back is refused where it does not accept this."""
    Worker(SIZED).batch(store, a=1)
    worker = Worker(TAKES_FIVE)
    worker.batch(store, b=2)
    with pytest.raises(IncompatibleStateError, match="keeps the size, '3', got '5'"):
        Worker(SIZED).load(store)

    assert {"a": 1, "b": 2} == read_cold(store)


def test_a_log_under_other_settings_is_written_anew_though_nothing_changed(store):
    """What the program has made of it, and did not store, is not gone on from as if it had not been."""
    Worker(SIZED).batch(store, a=1)
    Worker(TAKES_FIVE).batch(store)
    with pytest.raises(IncompatibleStateError, match="keeps the size, '3', got '5'"):
        Worker(SIZED).load(store)

    assert {"a": 1} == read_cold(store)


@pytest.mark.parametrize(("before", "now"), [(COUNT, SIZED), (SIZED, COUNT)], ids=["new", "gone"])
def test_a_setting_that_only_one_program_has_is_not_compared(store, before, now):
    """Such as the clock of a TTL that is new, or gone."""
    Worker(before).batch(store, a=1)
    worker = Worker(now)
    worker.load(store)

    assert {"a": 1} == worker.contents()


def test_a_setting_is_written_into_a_log_that_had_none(store):
    """With the next change, not with the next compaction only."""
    Worker(COUNT).batch(store, a=1)
    Worker(SIZED).batch(store, b=2)

    with pytest.raises(IncompatibleStateError, match="keeps the size, '5', got '3'"):
        Worker(RESIZED).load(store)


def test_a_declaration_with_settings_is_what_was_written():
    """In a segment as JSON, and without the remedy, which is the program's."""
    written = Declaration.of(SIZED, Types.STRING())

    assert written == Declaration.from_json(written.to_json())
    assert b'"settings":{"the size":"5"}' in written.to_json()
