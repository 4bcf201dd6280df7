# SPDX-License-Identifier: Apache-2.0
"""Segments: what went in comes out, and nothing else does."""

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.entry_codec import decode_entries, encode_entries, has_stamps
from pyflinklike._changelog.segments import Declaration, Section, Segment, read_segment
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, StateValueError
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.testing import strategies
from pyflinklike.types import Types
from pyflinklike.types.key_codec import AnyKeyTypeInfo

KEY = Types.STRING()
VALUE = TableSpec("v", Shape.SINGLE, "value", Types.LONG())
MAP = TableSpec("m", Shape.MAP, "map", Types.STRING(), Types.LONG())
DECLARATION = Declaration.of(VALUE, KEY)


def through_bytes(changes, spec=None, key_type=KEY, stamp=0):
    """Changes encoded and decoded, for a program that declares `spec`."""
    (payload,) = encode_entries(changes, key_type)
    section = Section(Declaration.of(changes.spec, key_type), payload)
    return decode_entries(section, spec or changes.spec, key_type, stamp, "test")


def segment_of(*payloads):
    """A segment with a section for each payload."""
    sections = [(0, payload) for payload in payloads]
    return Segment(b"n" * 16, b"p" * 16, {0: DECLARATION}, sections)


@pytest.mark.parametrize("spec", [VALUE, MAP], ids=["single", "map"])
@pytest.mark.parametrize("paired", [False, True])
def test_every_kind_of_change_is_read_back(spec, paired):
    """Clears, puts and deletions in their order."""
    entries = ["x", MISSING, None] if spec is MAP else [1, MISSING, 3]
    if paired:
        entries = [each if each is MISSING else (7, each) for each in entries]
    user_keys = [5, 6, 7] if spec is MAP else [None] * 3
    spec = attrs.evolve(spec, paired=paired)
    changes = TableChanges(spec, ["c"], ["a", "b", "c"], user_keys, entries)

    assert changes == through_bytes(changes)


def test_no_changes_are_read_back():
    """An empty section is legal."""
    assert TableChanges(VALUE) == through_bytes(TableChanges(VALUE))


@given(st.data(), strategies.type_infos(), st.booleans())
def test_values_of_every_type_are_read_back(data, type_info, paired):
    """Equal, of the same types, the stamp with them."""
    values = data.draw(st.lists(strategies.values_of(type_info), max_size=4))
    entries = [type_info.freeze(value) for value in values]
    if paired:
        entries = [(number, entry) for number, entry in enumerate(entries)]
    spec = TableSpec("l", Shape.LIST, "list", type_info, paired=paired)
    positions = list(range(len(entries)))
    changes = TableChanges(spec, [], ["k"] * len(entries), positions, entries)

    assert repr(changes) == repr(through_bytes(changes))


@given(st.data(), strategies.type_infos())
def test_a_value_reads_the_same_before_and_after_a_restart(data, type_info):
    """The user's form, whatever its type."""
    stored = type_info.freeze(data.draw(strategies.values_of(type_info)))
    spec = TableSpec("v", Shape.SINGLE, "value", type_info)
    restored = through_bytes(TableChanges(spec, [], ["k"], [None], [stored])).entries[0]

    assert repr(stored and type_info.thaw(stored)) == repr(restored and type_info.thaw(restored))


@given(st.lists(strategies.keys(), max_size=5))
def test_undeclared_keys_are_read_back(keys):
    """In the form in which they were frozen."""
    key_type = AnyKeyTypeInfo()
    frozen = [key_type.freeze(key) for key in keys]
    changes = TableChanges(VALUE, [], frozen, [None] * len(keys), list(range(len(keys))))

    assert frozen == through_bytes(changes, key_type=key_type).keys


def test_a_table_without_values_is_read_back():
    """As that of the timers."""
    spec = TableSpec("t", Shape.MAP, "timers", user_key_type=Types.LONG())
    changes = TableChanges(spec, [], ["a", "a"], [1, 2], [None, MISSING])

    assert changes == through_bytes(changes)


def test_entries_without_stamps_get_the_time_of_the_restore():
    """TTL was switched on."""
    changes = TableChanges(VALUE, [], ["a"], [None], [1])

    assert [(70, 1)] == through_bytes(changes, attrs.evolve(VALUE, paired=True), stamp=70).entries


def test_entries_with_stamps_lose_them_for_a_program_without_ttl():
    """TTL was switched off."""
    changes = TableChanges(attrs.evolve(VALUE, paired=True), [], ["a"], [None], [(5, 1)])

    assert [1] == through_bytes(changes, VALUE).entries


@pytest.mark.parametrize("paired", [False, True])
def test_a_section_tells_whether_it_has_stamps(paired):
    """A change of TTL is noticed by it."""
    spec = attrs.evolve(VALUE, paired=paired)
    (payload,) = encode_entries(TableChanges(spec, ["c"]), KEY)

    assert paired is has_stamps(Section(DECLARATION, payload))


def test_a_small_change_makes_a_small_segment():
    """No schema, no columns that say nothing."""
    (payload,) = encode_entries(TableChanges(VALUE, [], ["a"], [None], [1]), KEY)

    assert len(segment_of(payload).to_bytes()) < 600


@pytest.mark.parametrize("payloads", [[], [b""], [b"\x00abc", b"\x01"], [b"\x00" * 40_000]])
def test_a_segment_is_read_back(payloads):
    """Small and compressed, with and without sections."""
    segment = segment_of(*payloads)

    assert segment == read_segment(segment.to_bytes(), "test")


def test_a_large_segment_is_compressed():
    """Where it gains."""
    assert len(segment_of(b"\x00" * 100_000).to_bytes()) < 10_000


def test_another_format_version_is_refused():
    """The message says which version it is."""
    blob = bytearray(segment_of().to_bytes())
    struct.pack_into("<B", blob, 3, 9)

    with pytest.raises(CorruptStateError, match="got format 9"):
        read_segment(bytes(blob), "test")


def test_a_section_that_is_no_record_batch_is_refused():
    """The message names the state."""
    with pytest.raises(CorruptStateError, match="state 'v'"):
        decode_entries(Section(DECLARATION, b"\x00abc"), VALUE, KEY, 0, "test")


def test_an_entry_that_its_type_cannot_write_is_an_error_of_ours():
    """The message names the state."""
    with pytest.raises((IncompatibleStateError, StateValueError), match="'v'"):
        encode_entries(TableChanges(VALUE, [], ["a"], [None], ["text"]), KEY)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"kind": "reducing"}, "kind"),
        ({"shape": Shape.LIST}, "shape"),
        ({"value_type": Types.INT()}, "value type"),
        ({"user_key_type": Types.STRING()}, "user key type"),
    ],
)
def test_another_declaration_is_refused(changed, what):
    """The message names the state and what differs."""
    now = Declaration.of(attrs.evolve(MAP, **changed), KEY)

    with pytest.raises(IncompatibleStateError, match=f"state 'm': .* the {what} it was"):
        Declaration.of(MAP, KEY).check(now)


def test_another_key_type_is_refused():
    """Its keys would not be found."""
    with pytest.raises(IncompatibleStateError, match="the key type it was written with, 'String'"):
        DECLARATION.check(Declaration.of(VALUE, Types.LONG()))


def test_another_ttl_is_the_same_declaration():
    """TTL may change between runs."""
    assert DECLARATION == Declaration.of(attrs.evolve(VALUE, paired=True), KEY)
