# SPDX-License-Identifier: Apache-2.0
"""The record and the registry: what they say survives as bytes, and what is not as they say is refused."""

from __future__ import annotations

import datetime as dt
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from checkpoint_support import Checkpoint, Program

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, StateTtlConfig, Types
from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorIdentity,
    OperatorRecord,
    register_key_groups,
)
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids
from pyflinklike.state_processor._spark.initial_state import savepoint_of
from pyflinklike.stores import WindowStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

WHERE = "checkpoint 'x', operator 0, batch 7"


class Pages(KeyedProcessFunction):
    """Counts by the number of the record, under a TTL; has a store as well, which stays empty."""

    def open(self, runtime_context):
        pages = MapStateDescriptor("pages", Types.LONG(), Types.LONG())
        pages.enable_time_to_live(StateTtlConfig(ttl=dt.timedelta(hours=1)))
        self.pages = runtime_context.get_map_state(pages)
        runtime_context.get_store(
            WindowStoreDescriptor("clicks", Types.STRING(), Types.LONG(), window_size=60_000)
        )

    def process_element(self, value, ctx):
        self.pages.put(value.n, (self.pages.get(value.n) or 0) + 1)
        yield value.key, value.n


PROGRAM = Program(Pages(), max_parallelism=8)


@pytest.fixture
def checkpoint():
    """Three batches: the last one has records for some of the key groups only."""
    checkpoint = Checkpoint()
    for batch in range(3):
        keys = [str(number) for number in range(40 if batch < 2 else 3)]
        checkpoint.run(PROGRAM, [(key, batch) for key in keys], time=100 + batch)
    return checkpoint


def damaged(blob):
    """The blob with each of its bits flipped, and cut short at each place."""
    for at in range(len(blob)):
        yield blob[:at]
        for bit in range(8):
            yield blob[:at] + bytes([blob[at] ^ 1 << bit]) + blob[at + 1 :]


def test_the_record_says_what_the_log_does_not(checkpoint):
    """Names, columns, times, and what each state and store was declared as, even if it is empty."""
    record = json.loads(checkpoint.blobs[REGISTRY_KEY][RECORD_AT])
    long = Types.LONG().signature
    assert {
        "uid": "counted",
        "max_parallelism": 8,
        "key": Types.STRING().signature,
        "key_columns": [["key", "string"]],
        "time_zone": "UTC",
        "event_time": None,
        "time_mode": "ProcessingTime",
        "format": 1,
    }.items() <= record.items()
    assert record["function"].endswith("test_operator_record.Pages")
    assert {
        "kind": "map",
        "user_key": long,
        "value": long,
        "ttl": {
            "ms": 3_600_000,
            "update_type": "OnCreateAndWrite",
            "visibility": "NeverReturnExpired",
            "time": "ProcessingTime",
        },
    } == record["states"]["pages"]
    assert {
        "store": "window",
        "key": Types.STRING().signature,
        "value": long,
        "window_size": 60_000,
        "retention": 86_400_000,
        "segments": 2,
        "stream_time": "key",
        "retain_duplicates": False,
        "scope": "key",
    } == record["states"]["clicks"]


def test_every_damage_to_a_record_is_seen(checkpoint):
    """Each flipped bit and each cut."""
    for blob in damaged(checkpoint.blobs[REGISTRY_KEY][RECORD_AT]):
        with pytest.raises(CorruptStateError, match="operator 0, batch 7: "):
            OperatorRecord.from_bytes(blob, WHERE)


def test_every_damage_to_a_roll_is_seen(checkpoint):
    """Each flipped bit and each cut."""
    for blob in damaged(checkpoint.blobs[REGISTRY_KEY][REGISTRY_AT]):
        with pytest.raises(CorruptStateError, match="operator 0, batch 7: "):
            KeyGroupRegistry.from_bytes(blob, WHERE)


@given(
    st.binary(min_size=8, max_size=8),
    st.dictionaries(st.integers(0, 32_767), st.integers(-(2**63), 2**63 - 1)),
)
def test_a_roll_survives_as_bytes(record, served_at):
    """Whatever it holds."""
    registry = KeyGroupRegistry(record, served_at)
    assert registry == KeyGroupRegistry.from_bytes(registry.to_bytes(), WHERE)


@given(st.text(), st.lists(st.tuples(st.text(), st.text())), st.text())
def test_an_identity_survives_as_text(name, columns, key):
    """Whatever the names are."""
    identity = OperatorIdentity(name, 4, tuple(columns), key)
    assert identity == OperatorIdentity.of_text(identity.text, 4)


@pytest.mark.parametrize("text", ["", "{", "1", "[]", '["a",[["b"]],"c"]', "null"])
def test_what_is_no_identity_is_refused(text):
    """As damage."""
    with pytest.raises(CorruptStateError, match="identity"):
        OperatorIdentity.of_text(text, 4)


class Wider(Pages):
    """Counts in numbers of any size."""

    def open(self, runtime_context):
        self.pages = runtime_context.get_map_state(
            MapStateDescriptor("pages", Types.LONG(), Types.BIG_INT())
        )


def test_a_type_that_has_grown_does_not_go_back(checkpoint):
    """Also in a micro-batch whose key groups the newer program has not written; nothing is."""
    wider = Program(Wider(), max_parallelism=8)
    checkpoint.run(wider, [("0", 7)], time=200)
    assert Types.BIG_INT().signature == checkpoint.record().states["pages"]["value"]
    before = checkpoint.blobs
    (other,) = [key for key in "1234567" if wider.group_of(key) != wider.group_of("0")][:1]
    with pytest.raises(IncompatibleStateError, match=r"'pages'.*'BigInteger', got 'Long'"):
        checkpoint.run(PROGRAM, [(other, 7)], time=201)
    assert before == checkpoint.blobs
    assert [("0", 1)] == checkpoint.run(wider, [("0", 1)], time=202)


# A savepoint holds what the registry says


def test_a_savepoint_of_a_whole_checkpoint_has_all_of_it(checkpoint):
    """40 keys with two entries each, and three keys with one more."""
    savepoint = savepoint_of(checkpoint.blobs, WHERE)
    harness = KeyedProcessHarness(
        Pages(), key_selector=lambda value: value.key, key_type=Types.STRING(), restore=savepoint
    )
    assert 40 * 2 + 3 == harness.num_keyed_state_entries("pages")


def rolled_back(checkpoint, groups):
    """The state of some key groups as it was after the batch before."""
    former = Checkpoint()
    for batch in range(2):
        former.run(PROGRAM, [(str(number), batch) for number in range(40)], time=100 + batch)
    return {**checkpoint.blobs, **{each: former.blobs[each] for each in groups}}


def test_a_key_group_that_is_missing_is_refused(checkpoint):
    """Whichever it is."""
    ids = group_ids(8)
    for index in range(8):
        blobs = {key: each for key, each in checkpoint.blobs.items() if key != ids[index]}
        with pytest.raises(
            CorruptStateError, match=f"its registry names 8 key groups, .* in {index};"
        ):
            savepoint_of(blobs, WHERE)


def test_a_key_group_of_an_earlier_batch_is_refused(checkpoint):
    """If the last batch had records for it; a whole log of its own that ends too early."""
    last = max(checkpoint.registry().served_at.values())
    late = [index for index, time in checkpoint.registry().served_at.items() if time == last]
    assert 0 < len(late) < 8
    for index in late:
        with pytest.raises(
            CorruptStateError, match=f"key group {index}: by the registry it last had"
        ):
            savepoint_of(rolled_back(checkpoint, [group_ids(8)[index]]), WHERE)


def test_a_roll_of_an_earlier_batch_is_refused(checkpoint):
    """It does not know what the key groups have been through since."""
    with pytest.raises(CorruptStateError, match="by the registry it last had"):
        savepoint_of(rolled_back(checkpoint, [REGISTRY_KEY]), WHERE)


@pytest.mark.parametrize("lost", [RECORD_AT, REGISTRY_AT])
def test_a_checkpoint_without_record_or_roll_is_refused(checkpoint, lost):
    """Also one that seems to be empty."""
    without = checkpoint.blobs
    del without[REGISTRY_KEY][lost]
    for blobs in (without, {}):
        with pytest.raises(CorruptStateError, match="must hold the record"):
            savepoint_of(blobs, WHERE)


@pytest.mark.parametrize(
    "change",
    [{"identity": '["other",[],""]'}, {"identity": ""}, {"max_parallelism": 16}],
)
def test_a_key_group_of_another_operator_is_refused(checkpoint, change):
    """By its head."""
    at = group_ids(8)[3]
    head = attrs.evolve(Head.from_bytes(checkpoint.blobs[at][HEAD_AT], "test"), **change)
    with checkpoint.edit_blobs() as blobs:
        blobs[at][HEAD_AT] = head.to_bytes()
    with pytest.raises(CorruptStateError, match="key group 3: a key group must be of the operator"):
        savepoint_of(checkpoint.blobs, WHERE)


def test_state_under_a_number_that_no_key_group_has_is_refused(checkpoint):
    """Where a number was damaged, two of them could be the same key group."""
    stray = next(number for number in range(1000) if number not in group_ids(8))
    blobs = {**checkpoint.blobs, stray: checkpoint.blobs[group_ids(8)[0]]}
    with pytest.raises(CorruptStateError, match=f"numbers of key groups, got {stray}"):
        savepoint_of(blobs, WHERE)


def test_a_new_record_knows_the_states_of_its_savepoint(checkpoint):
    """Those of the program are as it says; a record that is there has been through more."""
    record = OperatorRecord.from_bytes(checkpoint.blobs[REGISTRY_KEY][RECORD_AT], WHERE)
    (name, *_) = record.states
    other, older = {"kind": "list", "value": "Long"}, {"kind": "list", "value": "Int"}
    storage = Blobs()
    for saved in ({name: other, "former": other}, {"former": older, "latter": other}):
        register_key_groups(storage, record, [0], 1, saved)
        register_key_groups(storage, attrs.evolve(record, library="later"), [0], 2, saved)
        written = OperatorRecord.from_bytes(storage.read_segment(RECORD_AT), WHERE)
        assert {**record.states, "former": other} == written.states


def test_the_record_and_the_roll_lie_where_former_releases_wrote_them():
    """Below the segments of a log, which have the numbers from 0 on."""
    assert (-2, -3) == (RECORD_AT, REGISTRY_AT)


class Blobs(dict):
    """What a host keeps of a grouping key."""

    read_segment = dict.get
    write_segment = dict.__setitem__
