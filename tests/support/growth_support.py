# SPDX-License-Identifier: Apache-2.0
"""Pairs of types of which one grows into the other, and what becomes of a value: a model in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pyflinklike.testing.strategies import type_infos
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.row import row_class

CHAINS = (
    [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()],
    [Types.FLOAT(), Types.DOUBLE()],
    [Types.CHAR(), Types.STRING()],
)
WIDER = {(a, b) for chain in CHAINS for at, a in enumerate(chain) for b in chain[at:]}
"""Of scalar types: which is read as which."""


class Growing(NamedTuple):
    """A type, what it has grown into, and what a value of the one is in the other."""

    stored: TypeInformation
    declared: TypeInformation
    cast: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _lists(make: Any, part: Growing) -> Growing:
    return Growing(
        make(part.stored),
        make(part.declared),
        lambda value: [None if each is None else part.cast(each) for each in value],
    )


def _maps(part: Growing) -> Growing:
    return Growing(
        Types.MAP(Types.STRING(), part.stored),
        Types.MAP(Types.STRING(), part.declared),
        lambda value: {
            key: None if each is None else part.cast(each) for key, each in value.items()
        },
    )


def _tuples(parts: list[Growing]) -> Growing:
    return Growing(
        Types.TUPLE([part.stored for part in parts]),
        Types.TUPLE([part.declared for part in parts]),
        lambda value: tuple(
            None if each is None else part.cast(each) for part, each in zip(parts, value)
        ),
    )


@st.composite
def _rows(draw: Any, parts: st.SearchStrategy[Growing]) -> Growing:
    """Fields that stay in any order, and either some more or some fewer."""
    some = draw(st.lists(parts, max_size=4))
    names = draw(st.permutations("abcdef"))[: len(some)]
    fields = dict(zip(names, some))
    kept = names[: draw(st.integers(0, len(names)))]
    new = draw(st.permutations(kept if draw(st.booleans()) else names))
    old = names if len(new) < len(names) else draw(st.sampled_from([names, kept]))

    def cast(value: Any) -> Any:
        found = {
            name: None if value[name] is None else fields[name].cast(value[name]) for name in old
        }
        return row_class(tuple(new))._make(found.get(name) for name in new)

    return Growing(
        Types.ROW_NAMED(list(old), [fields[name].stored for name in old]),
        Types.ROW_NAMED(list(new), [fields[name].declared for name in new]),
        cast,
    )


def _nested(parts: st.SearchStrategy[Growing]) -> st.SearchStrategy[Growing]:
    return st.one_of(
        st.builds(_lists, st.sampled_from([Types.LIST, Types.OBJECT_ARRAY]), parts),
        parts.map(_maps),
        st.lists(parts, max_size=3).map(_tuples),
        _rows(parts),
    )


def growing() -> st.SearchStrategy[Growing]:
    """Types that grow, nested ones included; some stay as they are."""
    scalars = sorted(WIDER, key=repr)
    leaves = st.one_of(
        st.sampled_from(scalars).map(lambda pair: Growing(*pair, _same)),
        type_infos().map(lambda kind: Growing(kind, kind, _same)),
    )
    return st.recursive(leaves, _nested, max_leaves=5)
