# SPDX-License-Identifier: Apache-2.0
"""How a replica comes from batch to batch, and when it reads all anew."""

from __future__ import annotations

import threading

import pytest
from replica_support import FollowedQuery, replica_of

from pyflinklike import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationValueError,
    ScanDisabledError,
    SparkSetupError,
    StaleStateError,
    StateAccessError,
    StoreClosedError,
    UnknownStateError,
    UnknownStoreError,
)
from pyflinklike.stores import KeyValueStoreDescriptor

VALUE = ValueStateDescriptor("v", Types.LONG())
KEYS = ["a", "b", "c", "d", "e"]


def put(n):
    """A record that writes a number."""
    return lambda on: on["v"].update(n)


def everywhere(n):
    """Records that write it under every key."""
    return [(key, put(n)) for key in KEYS]


@pytest.fixture
def query():
    """A query of one value state, after its first batch."""
    query = FollowedQuery([VALUE])
    query.batch(everywhere(1), 5, 3)
    return query


def test_only_what_is_new_is_decoded(query):
    """A key group that was decoded catches up, one that nothing was written to stays as it is."""
    with replica_of(query) as replica:
        replica["v"].get_many(KEYS)
        cold = replica.metrics.cold_loads
        query.batch([("a", put(2))])
        assert replica.refresh()
        assert {**dict.fromkeys(KEYS, 1), "a": 2} == replica["v"].get_many(KEYS)
        assert (cold, 1, 0) == (
            replica.metrics.cold_loads,
            replica.metrics.caught_up_loads,
            replica.metrics.reopens,
        )


def test_a_position_tells_batch_watermark_and_age(query):
    """And orders by the batch."""
    with replica_of(query) as replica:
        first = replica.position
        query.batch(everywhere(2), 9, 7)
        replica.refresh()
        assert (0, 3, 1, 7) == (
            first.batch_id,
            first.watermark,
            replica.position.batch_id,
            replica.position.watermark,
        )
        assert (True, -1) == (first < replica.position, replica.position.age)


def test_what_a_compaction_removed_is_held_no_more(query):
    """A replica holds the logs as they are, however long it follows."""
    with replica_of(query) as replica:
        for n in range(20):
            query.batch(everywhere(n), compact=n % 4 == 3)
            replica.refresh()
        stored = sum(store.size for store in query.stores)
        heads = sum(len(store.head.to_bytes()) for store in query.stores if store.head)
        assert (stored + heads, 0) == (replica.metrics.stored_bytes, replica.metrics.reopens)


def test_what_is_decoded_stays_within_its_bound(query):
    """And what does not fit is decoded again."""
    with replica_of(query, cache_bytes=2500) as replica:
        for _ in range(5):
            assert dict.fromkeys(KEYS, 1) == replica["v"].get_many(KEYS)
        metrics = replica.metrics
        assert metrics.decoded_bytes <= 2500
        assert metrics.cold_loads > len({query.group_of(key) for key in KEYS})


def test_a_cache_that_is_too_small_is_told_once(query, caplog):
    """Reads that come round find what fits, and the log says what makes the others slow."""
    with replica_of(query, cache_bytes=2500) as replica:
        for _ in range(100):
            for key in KEYS:
                replica["v"].get(key)
        metrics = replica.metrics
    told = [each for each in caplog.messages if "cache_bytes" in each]
    assert (1, True, True) == (len(told), metrics.repeated_loads >= 20, metrics.warm_loads >= 50)


MANY = [f"key {n:05}" for n in range(3000)]


@pytest.fixture
def grown(query):
    """The query with two thousand keys in each of two key groups or more."""
    query.batch([(key, put(0)) for key in MANY])
    return query


def everything_decoded(query):
    """How many bytes all key groups take."""
    with replica_of(query) as replica:
        replica["v"].get_many(MANY)
        return replica.metrics.decoded_bytes


def test_what_has_no_room_is_read_from_columns(grown):
    """A log is read for the whole group, then for its columns, and hardly ever again."""
    bound = everything_decoded(grown) * 2 // 5
    with replica_of(grown, cache_bytes=bound) as replica:
        for _ in range(3):
            assert dict.fromkeys(MANY[::50], 0) == {k: replica["v"].get(k) for k in MANY[::50]}
        read = replica.metrics.cold_loads
        for key in MANY[::7]:
            replica["v"].get(key)
        metrics = replica.metrics
        assert (True, True) == (metrics.cold_loads - read < 5, metrics.key_loads > 100)
        assert metrics.decoded_bytes <= bound


def test_columns_follow_the_query(grown):
    """A newer batch is read besides, and a compaction anew."""
    with replica_of(grown, cache_bytes=everything_decoded(grown) // 3) as replica:
        for n in range(1, 9):
            for key in MANY[::100]:
                assert n - 1 == replica["v"].get(key)
            grown.batch([(key, put(n)) for key in MANY[::100]], compact=n % 4 == 0)
            replica.refresh()
            assert 0 == replica["v"].get(MANY[1])
        assert (0, True) == (replica.metrics.reopens, replica.metrics.caught_up_loads > 4)


def test_a_key_group_that_readers_turn_to_is_decoded(grown):
    """It takes the place of groups that nobody asks for any more."""
    groups = sorted({grown.group_of(key) for key in MANY})
    of = {index: [key for key in MANY if grown.group_of(key) == index] for index in groups}
    bound = everything_decoded(grown) * 3 // 5
    with replica_of(grown, cache_bytes=bound) as replica:
        for _ in range(3):
            for index in groups:
                replica["v"].get(of[index][0])
        for hot in groups:
            for turn in range(200):
                replica["v"].get(of[hot][turn % 50])
                replica["v"].get(of[groups[0]][0])  # so that each is entered anew
            loads = replica.metrics.key_loads
            replica["v"].get(of[hot][1])
            assert loads == replica.metrics.key_loads


def test_a_cache_that_is_large_enough_is_not_told_of(query, caplog):
    """What changed since is decoded, too."""
    with replica_of(query) as replica:
        for n in range(50):
            query.batch(everywhere(n), compact=n % 4 == 3)
            replica.refresh()
            replica["v"].get_many(KEYS)
    assert ([], 0) == (caplog.messages, replica.metrics.repeated_loads)


def test_batches_that_are_gone_are_read_anew(query):
    """A purged batch is a gap in what was written."""
    with replica_of(query) as replica:
        for n in (2, 3, 4):
            query.batch(everywhere(n))
        query.oldest = 3
        replica.refresh()
        assert (4, 1) == (replica["v"].get("a"), replica.metrics.reopens)


def test_another_run_with_the_same_number_of_batches_is_told(query):
    """The same batch id, other contents: what was decoded of the first run is not used."""
    with replica_of(query) as replica:
        replica["v"].get_many(KEYS)
        query.begin_anew([VALUE], 4)
        query.batch(everywhere(7), 5, 3)
        replica.refresh()
        assert (dict.fromkeys(KEYS, 7), 1) == (
            replica["v"].get_many(KEYS),
            replica.metrics.reopens,
        )


def test_a_run_that_went_back_is_told_by_the_nonce(query):
    """What it wrote does not follow what is known here, so all is read anew."""
    with replica_of(query) as replica:
        query.batch(everywhere(2))
        replica.refresh()
        query.begin_anew([VALUE], 4)
        query.batch(everywhere(7), 5, 3)
        query.batch(everywhere(8))
        query.batch([("a", put(9))])
        replica.refresh()
        assert (2, 9, 8, 1) == (
            replica.position.batch_id,
            replica["v"].get("a"),
            replica["v"].get("b"),
            replica.metrics.reopens,
        )


def test_another_number_of_key_groups_is_followed(query):
    """Of a checkpoint that was begun anew; keys are looked for where they are now."""
    with replica_of(query) as replica:
        value = replica["v"]
        value.get("a")
        query.begin_anew([VALUE], 16)
        query.batch(everywhere(7))
        query.batch(everywhere(8))
        replica.refresh()
        assert dict.fromkeys(KEYS, 8) == value.get_many(KEYS)


def test_a_state_that_a_restart_adds_can_be_asked(query):
    """And one whose TTL a restart changed expires by the new one."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(10)).build()
    changed = ValueStateDescriptor("v", Types.LONG())
    changed.enable_time_to_live(ttl)
    with replica_of(query) as replica:
        query.restart([changed, ListStateDescriptor("new", Types.LONG())])
        query.batch([("a", lambda on: (on["new"].add(3), on["v"].update(2)))], 20)
        replica.refresh()
        assert ([3], 2) == (replica["new"].get("a"), replica["v"].get("a"))
        query.batch([("b", put(5))], 30)
        replica.refresh()
        assert (None, 5) == (replica["v"].get("a"), replica["v"].get("b"))


def test_a_state_that_is_gone_is_told(query):
    """Of a checkpoint that was begun anew by another program; who holds the state is told, too."""
    with replica_of(query) as replica:
        value = replica["v"]
        query.begin_anew([ListStateDescriptor("w", Types.LONG())], 4)
        query.batch([("a", lambda on: on["w"].add(1))])
        replica.refresh()
        with pytest.raises(UnknownStateError, match=r"\['w'\], got 'v'"):
            value.get("a")
        assert [1] == replica["w"].get("a")


@pytest.mark.parametrize("asked_before", [False, True])
def test_entries_from_before_a_ttl_live_on(query, asked_before):
    """They have no stamp, and are given that of the batch in which they are first read."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(10)).build()
    changed = ValueStateDescriptor("v", Types.LONG())
    changed.enable_time_to_live(ttl)
    other = ListStateDescriptor("other", Types.LONG())
    with replica_of(query) as replica:
        query.restart([changed, other])
        query.batch([("a", lambda on: on["other"].add(1))], 100)
        replica.refresh()
        if asked_before:  # the key group is current when the state is opened
            replica["other"].get("b")
        assert 1 == replica["v"].get("b")


def test_a_damaged_segment_is_found_when_it_is_followed(query):
    """What was read before goes on answering."""
    with replica_of(query) as replica:
        query.batch([("a", put(2))])
        writes = query.writes[-1]
        at = next(at for at, each in enumerate(writes) if each.sequence >= 0 and each.blob)
        store = query.stores[query.group_of("a")]
        blob = bytearray(writes[at].blob)
        blob[-1] ^= 1
        writes[at] = writes[at]._replace(blob=bytes(blob))
        store.segments[writes[at].sequence] = bytes(blob)
        replica.refresh()
        with pytest.raises(CorruptStateError, match="key group"):
            replica["v"].get("a")
        assert 1 == replica["v"].get(next(k for k in KEYS if query.group_of(k) != store.key_group))


def test_a_checkpoint_that_cannot_be_reached_leaves_the_replica_as_it_is(query):
    """The error says so where it is asked to look, and reads go on."""
    with replica_of(query) as replica:
        query.is_away = True
        with pytest.raises(SparkSetupError, match="reached"):
            replica.refresh()
        assert (1, 1) == (replica["v"].get("a"), replica.metrics.failed_refreshes)


def test_a_read_that_wants_a_batch_gets_it_or_an_error(query):
    """It looks for it first; the error says where the replica is."""
    with replica_of(query) as replica:
        query.batch(everywhere(2))
        assert 2 == replica["v"].get("a", at_least_batch=1)
        with pytest.raises(StaleStateError, match=r"batch 5 or later.*batch_id=1"):
            replica["v"].get("a", at_least_batch=5)


def test_a_read_of_some_age_looks_for_newer_batches_first(query):
    """Only where it is longer ago that none was found."""
    now = [0]
    with replica_of(query, now=lambda: now[0], max_age=100) as replica:
        query.batch(everywhere(2))
        now[0] = 100
        assert 1 == replica["v"].get("a")
        now[0] = 101
        assert 2 == replica["v"].get("a")
        now[0] = 202
        query.is_away = True
        with pytest.raises(StaleStateError, match="as max_age=100 ms asks"):
            replica["v"].get("a")
        assert 2 == replica["v"].get("a", max_age=1000)


def test_a_snapshot_refuses_a_later_batch(query):
    """It stays where it is."""
    with replica_of(query) as replica, replica.snapshot() as at:
        query.batch(everywhere(2))
        replica.refresh()
        with pytest.raises(StaleStateError, match="another"):
            at["v"].get("a", at_least_batch=1)
        assert (1, 2) == (at["v"].get("a"), replica["v"].get("a"))


def test_a_closed_replica_is_not_read(query):
    """Its snapshots are not, either."""
    replica = replica_of(query)
    value = replica["v"]
    with replica.snapshot() as at:
        replica.close()
        for read in (lambda: value.get("a"), lambda: at["v"].get("a"), replica.refresh):
            with pytest.raises(StoreClosedError):
                read()


def test_nothing_is_written(query):
    """Every verb that writes is refused by name."""
    with replica_of(query) as replica:
        for verb in ("update", "put", "add", "clear"):
            with pytest.raises(StateAccessError, match=rf"only read, got {verb}\(\)"):
                getattr(replica["v"], verb)(1)


def test_names_that_are_not_there_are_told():
    """Those of states, of stores, and of what was left out."""
    store = KeyValueStoreDescriptor("s", Types.STRING(), Types.LONG())
    query = FollowedQuery([VALUE, MapStateDescriptor("m", Types.STRING(), Types.LONG()), store])
    query.batch([("a", put(1))])
    with pytest.raises(UnknownStateError, match="'vv'; did you mean 'v'"):
        replica_of(query, states=["vv"])
    with replica_of(query, states=["v", "s"]) as replica:
        with pytest.raises(UnknownStateError):
            replica["m"]
        with pytest.raises(UnknownStateError, match=r"use store\('s'\)"):
            replica["s"]
        with pytest.raises(UnknownStoreError, match=r"use \['v'\]"):
            replica.store("v")
        with pytest.raises(StateAccessError, match="give key="):
            replica.store("s")


def test_a_state_may_have_a_slash_in_its_name():
    """Which is what parts the tables of a store; also if it is asked after another one."""
    query = FollowedQuery([VALUE, ValueStateDescriptor("w/x", Types.LONG())])
    query.batch([("a", lambda on: (on["v"].update(3), on["w/x"].update(8)))])
    with replica_of(query) as replica:
        assert (3, 8) == (replica["v"].get("a"), replica["w/x"].get("a"))


def test_a_scan_has_to_be_allowed(query):
    """It decodes every key group."""
    with (
        replica_of(query, allow_scan=False) as replica,
        pytest.raises(ScanDisabledError, match="allow_scan=True"),
    ):
        replica["v"].items()


def test_a_pickle_is_not_opened_without_leave():
    """It could run any code."""
    query = FollowedQuery([ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())])
    query.batch([("a", lambda on: on["v"].update({1, 2}))])
    with (
        replica_of(query) as replica,
        pytest.raises(DeclarationValueError, match="nothing is unpickled"),
    ):
        replica["v"]
    with replica_of(query, allow_pickle=True) as replica:
        assert {1, 2} == replica["v"].get("a")


def test_the_wall_clock_lets_state_expire_between_batches():
    """The clock of the batch does not."""
    value = ValueStateDescriptor("v", Types.LONG())
    value.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    query = FollowedQuery([value])
    query.batch([("a", put(1))], 5)
    now = [14]
    with (
        replica_of(query, now=lambda: now[0], clock="wall") as wall,
        replica_of(query, now=lambda: now[0]) as batch,
    ):
        assert (1, 1) == (wall["v"].get("a"), batch["v"].get("a"))
        now[0] = 15
        assert (None, 1) == (wall["v"].get("a"), batch["v"].get("a"))


def test_threads_see_one_batch_each_while_it_is_refreshed(query):
    """Every batch writes one number under every key, so a mixture shows."""
    mixed, done = [], threading.Event()
    with replica_of(query, cache_bytes=1500) as replica:

        def read():
            while not done.is_set():
                found = replica["v"].get_many(KEYS)
                if len(set(found.values())) != 1 or len(found) != len(KEYS):
                    mixed.append(found)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for each in threads:
            each.start()
        for n in range(2, 60):
            query.batch(everywhere(n), compact=n % 5 == 0)
            replica.refresh()
        done.set()
        for each in threads:
            each.join()
        assert ([], 59) == (mixed, replica["v"].get("a"))


def test_a_look_is_shared_by_all_who_asked_before_it_began():
    """Fifty clients that want the newest start few looks at the checkpoint, and not fifty."""
    query = FollowedQuery([ValueStateDescriptor("v", Types.LONG())])
    query.batch([("a", lambda on: on["v"].update(1))])
    clock, looking, held, looks = [0], threading.Event(), threading.Event(), []
    with replica_of(query, now=lambda: clock[0]) as replica:
        former, asked = query.after, threading.Semaphore(0)

        def after(image):
            looks.append(image)
            looking.set()
            held.wait(30)
            return former(image)

        query.after = after
        clock[0] = 1_000
        found = []

        def ask():
            asked.release()
            found.append(replica["v"].get("a", max_age=0))

        threads = [threading.Thread(target=ask) for _ in range(50)]
        threads[0].start()
        looking.wait(30)
        for each in threads[1:]:
            each.start()
        for _ in threads:
            asked.acquire()
        held.set()
        for each in threads:
            each.join()
    # Those that were about to ask when a look began need the next one.
    assert ([1] * 50, True) == (found, len(looks) < 25)
