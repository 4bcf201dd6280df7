# SPDX-License-Identifier: Apache-2.0
"""The tables of an LRU store beside its entries: the order of their uses, and their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.log.entries import encode_batch
from pyflinklike.log.segments import Section
from pyflinklike.replay.rows import StateRows
from pyflinklike.state.table import Shape
from pyflinklike.stores.codec import encode_int
from pyflinklike.types import Types

__all__ = ["lru_sections"]

_COUNT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def lru_sections(rows: StateRows, entries: pa.Table) -> Iterator[Section]:
    """Write the tables beside the entries, by the number of each entry's last use.

    Args:
        rows: Description of the store's rows.
        entries: Entries of one key group, in the columns of `StoredTable.schema`.
    """
    declared, name = rows.declaration, rows.info.name
    use = attrs.evolve(declared, name=f"{name}/use", kind="use of lru", value=_BYTES.signature)
    count = attrs.evolve(
        declared,
        name=f"{name}/count",
        kind="count of lru",
        shape=Shape.SINGLE.value,
        user_key="",
        value=_COUNT.signature,
    )
    keys = [] if declared.per_group else [entries.column("key").combine_chunks()]
    uses = pa.array(
        [encode_int(number) for number in entries.column("stamp").to_pylist()], pa.binary()
    )
    names = [*(["key"] if keys else []), "user_key", "value"]
    columns = [*keys, uses, entries.column("user_key").combine_chunks()]
    yield Section(use, encode_batch(pa.RecordBatch.from_arrays(columns, names)))
    owners, counts = _counts(keys, entries.column("stamp").to_pylist())
    columns = [*([keys[0].take(pa.array(owners))] if keys else []), _COUNT.to_arrow(counts)]
    names = [*(["key"] if keys else []), "value"]
    yield Section(count, encode_batch(pa.RecordBatch.from_arrays(columns, names)))


def _counts(keys: list[Any], uses: list[int]) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return for each owner the row of an entry, and (next use, number of entries, first use)."""
    owners = keys[0].to_pylist() if keys else [None] * len(uses)
    first: dict[str, int] = {}
    numbers: dict[str, list[int]] = {}
    for at, (owner, use) in enumerate(zip(map(repr, owners), uses)):
        first.setdefault(owner, at)
        numbers.setdefault(owner, []).append(use)
    counts = [(max(each) + 1, len(each), min(each)) for each in numbers.values()]
    return list(first.values()), counts
