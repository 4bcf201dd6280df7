# SPDX-License-Identifier: Apache-2.0
"""Failure snapshots that someone made up, whose checksums are right."""

from __future__ import annotations

from typing import Any

import msgspec

from pyflinklike import Types
from pyflinklike._changelog.entry_codec import decode_entries, encode_entries
from pyflinklike._changelog.segments import Section, read_segment
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types.catalog import type_of


def made_up(failure_snapshot: bytes, **facts: Any) -> bytes:
    """A failure snapshot with other facts, whose checksum is right."""
    segment = read_segment(failure_snapshot, "failure_snapshot")
    (at,) = (at for at, each in segment.declarations.items() if each.name == "__pyflinklike.call")
    held = segment.declarations[at]
    spec = TableSpec(
        held.name,
        Shape.SINGLE,
        held.kind,
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        per_group=not held.key,
    )
    key_type = type_of(held.key) if held.key else Types.LONG()
    (payload,) = (payload for table, payload in segment.sections if table == at)
    changes = decode_entries(Section(held, payload), spec, key_type, 0, "failure_snapshot")
    told = {**msgspec.msgpack.decode(changes.entries[0]), **facts}
    changes.entries[0] = msgspec.msgpack.encode(told)
    (payload,) = encode_entries(changes, key_type)
    segment.sections = [each if each[0] != at else (at, payload) for each in segment.sections]
    return segment.to_bytes()
