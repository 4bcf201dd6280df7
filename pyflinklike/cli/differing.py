# SPDX-License-Identifier: Apache-2.0
"""What differs between two batches, checkpoints or savepoints."""

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
    """What differs in a state, or in the timers of an operator.

    Args:
        operator: Its uid.
        state: Its name; "timers" of these.
        counts: How many entries, by change.
        rows: The first of them.
    """

    operator: str
    state: str
    counts: dict[str, int]
    rows: pa.Table


def differing(before: Source, after: Source, limit: int | None) -> Iterator[Difference]:
    """The states that differ, and behind them the operators whose timers do.

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
    """The uids, by that which is the same in both that are compared."""
    uids = [each.identity.name for each in source.records()]
    return {"": uids[0]} if len(uids) == 1 else {uid: uid for uid in uids}


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
