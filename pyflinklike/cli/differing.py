# SPDX-License-Identifier: Apache-2.0
"""Differences between two batches, checkpoints or savepoints."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from pyflinklike.cli.asking import Source
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError
from pyflinklike.replay.described import StateInfo

__all__ = ["Difference", "differing"]


@attrs.frozen
class Difference:
    """The differences in a state, or in the timers of an operator.

    Args:
        operator: The uid of the operator.
        state: The name of the state; "timers" for timers.
        counts: The number of different entries, by change.
        rows: The first different entries.
    """

    operator: str
    state: str
    counts: dict[str, int]
    rows: pa.Table


def differing(before: Source, after: Source, limit: int | None) -> Iterator[Difference]:
    """Yield the states that differ, then the operators whose timers differ.

    Args:
        before: A checkpoint or a savepoint.
        after: Another of the same kind.
        limit: The most rows of each state; None for all.

    Raises:
        DeclarationValueError: One is a checkpoint and one a savepoint.
        IncompatibleStateError: A state has different types in the two.
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
        one = None if was is None else before.held(was)
        other = None if now is None else after.held(now)
        keys = [column for column, _ in info.key_columns]
        counts, rows = before.compared(one, other, keys, limit)
        if counts:
            yield Difference(info.uid, name, counts, rows)
    yield from _timers(before, after, limit)


def _timers(before: Source, after: Source, limit: int | None) -> Iterator[Difference]:
    first, second = _by_operator(before), _by_operator(after)
    for operator in sorted(first.keys() | second.keys()):
        was, now = first.get(operator), second.get(operator)
        one, keys = before.registered(was)
        other, others = after.registered(now)
        counts, rows = before.compared(one, other, keys or others, limit)
        if counts:
            yield Difference(now or was or "", "timers", counts, rows)


def _by_operator(source: Source) -> dict[str, str]:
    """Return the uids by what identifies an operator in both sources: a single one may be renamed."""
    uids = [each.identity.name for each in source.records()]
    return {"": uids[0]} if len(uids) == 1 else {uid: uid for uid in uids}


def _by_name(source: Source) -> dict[tuple[str, str], StateInfo]:
    infos = source.states()
    one = len({info.operator_id for info in infos}) == 1  # a single operator may be renamed
    return {("" if one else info.uid, info.name): info for info in infos}


def _check_same(was: StateInfo, now: StateInfo) -> None:
    for field in ("kind", "key_columns", "user_key_type", "value_type", "namespace_type"):
        one, other = getattr(was, field), getattr(now, field)
        if one != other:
            msg = f"state {was.name!r}: diff compares states of one {field}, got {one} and {other}"
            raise IncompatibleStateError(f"{msg}; look at each with `show`")
