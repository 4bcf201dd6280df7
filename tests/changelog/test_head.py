# SPDX-License-Identifier: Apache-2.0
"""Heads: what went in comes out, and nothing else does."""

import json
import zlib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.segments import FORMAT_VERSION
from pyflinklike.errors import CorruptStateError

PLACE = "operator 'totals', key group 3"
HEAD = Head(b"n" * 16, 7, 4, 1000, 50, 700, 30, 128, 1_700_000_000_000, 1_700_000_060_000, None)

counts = st.integers(0, 2**63 - 1)
times = st.integers(-(2**63), 2**63 - 1)


@st.composite
def heads(draw):
    """Any head that a commit can write."""
    nonce = draw(st.sampled_from([b"", bytes(16), b"n" * 16]))
    first = draw(st.integers(0, 2**62))
    return Head(
        nonce,
        first + draw(st.integers(1, 2**62)) if nonce else first,
        first,
        *[draw(counts) for _ in range(5)],
        draw(times),
        *[draw(st.none() | times) for _ in range(2)],
        dead_letters=draw(counts),
        dead_letter_calls=draw(counts),
    )


def sealed(text):
    """Bytes of a head with this text and a right checksum."""
    text = text.rstrip(b"}")
    return text + b',"checksum":"%08x"}' % zlib.crc32(text)


def json_of(head, **changed):
    """The text of a head before it is sealed."""
    fields = {"format": FORMAT_VERSION} | attrs.asdict(head) | {"nonce": head.nonce.hex()} | changed
    return json.dumps(fields).encode()


@given(heads())
def test_a_head_is_read_from_its_bytes_as_it_was(head):
    """For hosts that keep bytes."""
    assert head == Head.from_bytes(head.to_bytes(), PLACE)


def test_every_flipped_bit_of_a_head_is_refused():
    """What it says of waking up, cleanup and compaction would not be missed otherwise; the place is named."""
    blob = HEAD.to_bytes()
    for at in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptStateError, match=r"operator 'totals', key group 3: "):
            Head.from_bytes(bytes(damaged), PLACE)


def test_a_head_cut_short_is_refused():
    """Wherever."""
    blob = HEAD.to_bytes()
    for size in range(len(blob)):
        with pytest.raises(CorruptStateError, match=PLACE):
            Head.from_bytes(blob[:size], PLACE)


def test_a_head_is_json_for_whoever_looks_into_a_checkpoint():
    """All its fields, and a checksum."""
    fields = json.loads(HEAD.to_bytes())
    assert (FORMAT_VERSION, 7, "6e" * 16) == (
        fields["format"],
        fields["next_sequence"],
        fields["nonce"],
    )


def test_the_head_of_another_format_is_refused_by_its_number():
    """Though its checksum is right."""
    with pytest.raises(CorruptStateError, match=f"{PLACE}: .* got format 2; run the version"):
        Head.from_bytes(sealed(json_of(HEAD, format=2)), PLACE)


@pytest.mark.parametrize(
    "changed",
    [
        {"nonce": ""},
        {"nonce": "00"},
        {"nonce": 5},
        {"nonce": "xx"},
        {"next_sequence": 4},
        {"first_sequence": -1},
        {"first_sequence": 4.0},
        {"log_bytes": None},
        {"max_parallelism": "128"},
        {"compacted_at": None},
        {"wake_at": "soon"},
        {"wake_at": 1.5},
        {"sweep_at": True},
        {"more": 1},
    ],
    ids=str,
)
def test_a_head_with_a_right_checksum_is_still_checked(changed):
    """What no commit writes is refused by name."""
    assert HEAD == Head.from_bytes(sealed(json_of(HEAD)), PLACE)

    with pytest.raises(CorruptStateError, match=PLACE):
        Head.from_bytes(sealed(json_of(HEAD, **changed)), PLACE)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"7", b"\xff", b"[" * 100_000, b'{"format":2,"nonce":"00"}'],
    ids=len,
)
def test_what_is_no_head_is_refused(text):
    """Also one that is nested without end."""
    with pytest.raises(CorruptStateError, match=PLACE):
        Head.from_bytes(sealed(text), PLACE)
