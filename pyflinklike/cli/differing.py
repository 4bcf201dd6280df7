# SPDX-License-Identifier: Apache-2.0
"""What differs between two batches, checkpoints or savepoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.cli.asking import Asked, Source, order_of
from pyflinklike.cli.saved import SavepointSource
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replay.differences import differences, differing_schema, entry_columns

__all__ = ["Difference", "differing"]


@attrs.frozen
class Difference:
    """What differs in a state.

    Args:
        operator: Its uid.
        state: Its name.
        counts: How many entries, by change.
        rows: The first of them.
    """

    operator: str
    state: str
    counts: dict[str, int]
    rows: pa.Table


def differing(before: Source, after: Source, limit: int | None) -> Iterator[Difference]:
    """The states that differ.

    Args:
        before: A checkpoint or a savepoint.
        after: Another of the same kind.
        limit: At most so many rows of each state; None for all.

    Raises:
        DeclarationValueError: One is a checkpoint and one a savepoint.
        IncompatibleStateError: A state is not of the same types in both.
    """
    if type(before) is not type(after):
        msg = (
            f"diff compares two checkpoints or two savepoints, got {before.where} and {after.where}"
        )
        raise DeclarationValueError(f"{msg}; make a savepoint of the checkpoint with `export`")
    first, second = _by_name(before), _by_name(after)
    for operator, name in sorted(first.keys() | second.keys()):
        was, now = first.get((operator, name)), second.get((operator, name))
        if was is not None and now is not None:
            _check_same(was, now)
        info = was or now
        assert info is not None
        counts, rows = _compared(before, after, was, now, limit)
        if counts:
            yield Difference(info.uid, name, counts, rows)


def _by_name(source: Source) -> dict[tuple[str, str], StateInfo]:
    infos = source.states()
    one = len({info.operator_id for info in infos}) == 1  # then its uid may have changed
    return {("" if one else info.uid, info.name): info for info in infos}


def _check_same(was: StateInfo, now: StateInfo) -> None:
    for field in ("kind", "key_columns", "user_key_type", "value_type", "namespace_type"):
        one, other = getattr(was, field), getattr(now, field)
        if one != other:
            msg = f"state {was.name!r}: diff compares states of one {field}, got {one} and {other}"
            raise IncompatibleStateError(f"{msg}; look at each with `show`")


def _compared(
    before: Any, after: Any, was: StateInfo | None, now: StateInfo | None, limit: int | None
) -> tuple[dict[str, int], pa.Table]:
    info = was or now
    assert info is not None
    keys = [name for name, _ in info.key_columns]
    if not isinstance(before, SavepointSource):
        from pyflinklike.cli.checkpoints import compared

        one, other = (
            source.frame(each, Asked()) if each is not None else None
            for source, each in ((before, was), (after, now))
        )
        return compared(one, other, keys, limit)
    one, other = (
        source.rows(each, Asked()) if each is not None else None
        for source, each in ((before, was), (after, now))
    )
    one, other = _both(one, other)
    on = entry_columns(one.schema.names, keys)
    found = differences(one, other, on)
    changes = found.column("change").to_pylist()
    counts = {each: changes.count(each) for each in sorted(set(changes))}
    order = order_of([(f.name, f.type) for f in differing_schema(one.schema, on)], keys)
    found = found.sort_by([(name, "ascending") for name in (*order, "change")])
    return counts, found if limit is None else found.slice(0, limit)


def _both(one: pa.Table | None, other: pa.Table | None) -> tuple[pa.Table, pa.Table]:
    if one is None:
        assert other is not None
        return other.slice(0, 0), other
    return one, one.slice(0, 0) if other is None else other
