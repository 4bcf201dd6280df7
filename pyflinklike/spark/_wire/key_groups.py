# SPDX-License-Identifier: Apache-2.0
"""The key group of a key, and grouping keys, by which Spark finds key groups and registries.

The key group of a key is the remainder of Spark's `xxhash64` of the key columns.  The expression must
never change, because a checkpoint finds its keys by it.  Spark computes it for records, and for keys
that come without records.  Python computes it for single values (`pyflinklike.queryable_state.xxhash64`).

Spark puts a grouping key into the partition `pmod(hash(key), partitions)`.  The keys 0, 1, 2 ...
spread unevenly: of 128 keys the fuller one of 2 partitions gets 74, and the fullest of 8 gets 23
instead of 16.  The slowest task decides how long a batch takes.  So the grouping key of key
group `g` of `n` is a number whose hash is `g` modulo `n`.  If the number of partitions divides
`n`, each partition gets the same number of key groups.

Operators of a job that are equally far behind its sources share one state operator of Spark and
one shuffle before it.  Each has an operator index there, from 0, and a range of grouping keys for
its key groups.  If an operator is alone, its index is 0.  The number just below the range is the
grouping key of the operator's registry.  The grouping keys of homes are below all ranges.

The numbers depend only on `max_parallelism` and on the operator index.  The checkpoint fixes both.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark._wire.system_columns import quote

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=128)
def group_ids(max_parallelism: int, operator_index: int = 0) -> tuple[int, ...]:
    """Find the grouping key of each key group of the operator with this index."""
    found: dict[int, int] = {}
    candidate = first_of(operator_index)
    while len(found) < max_parallelism:
        found.setdefault(index_of(candidate, max_parallelism), candidate)
        candidate += 1
    return tuple(found[index] for index in range(max_parallelism))


def index_of(group_id: int, max_parallelism: int) -> int:
    """Return the key group of a grouping key."""
    return _compute_hash(group_id) % max_parallelism


def _compute_hash(value: int) -> int:
    """Compute Spark's `hash` of an int, which is Murmur3 (x86, 32 bits) with seed 42."""
    mixed = value * 0xCC9E2D51 & _MASK
    mixed = _rotate(mixed, 15) * 0x1B873593 & _MASK
    state = (_rotate(42 ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # the length of an int
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK


MOST_OPERATORS = 100
"""The greatest number of operators that share a state operator."""
_RANGE = 1 << 24


def first_of(operator_index: int) -> int:
    """Return the lower bound of the grouping keys for the operator with this index."""
    return operator_index * _RANGE


def registry_key_of(operator_index: int) -> int:
    """Return the grouping key of the registry of the operator with this index."""
    return first_of(operator_index) - 1


def is_registry_key(grouping_key: int) -> bool:
    """Return whether a grouping key belongs to a registry."""
    return grouping_key >= registry_key_of(0) and (grouping_key + 1) % _RANGE == 0


def operator_index_of(grouping_key: int) -> int:
    """Return the operator index of a grouping key, which belongs to a key group or a registry."""
    return (grouping_key + 1) // _RANGE


# The registry is not a key group, and Spark calls it in every micro-batch with data.  The grouping
# keys of key groups depend on `max_parallelism`, so none of them can show that it has changed.  The
# grouping key of the registry depends on no setting.  Its state is the operator's record and the
# registry of key groups.  Every task that packs records also sends it the numbers of their key groups,
# so the registry needs no shuffle of its own.

REGISTRY_KEY = registry_key_of(0)
"""The grouping key of the registry of the operator with index 0."""
_INT = "i"


def registry_payload(groups: Iterable[int]) -> bytes:
    """Write the key groups for which a task has records as a payload."""
    return array(_INT, sorted(groups)).tobytes()


def groups_in(payloads: Iterable[bytes]) -> set[int]:
    """Read the key groups from the payloads of all tasks."""
    groups: set[int] = set()
    for payload in payloads:
        groups.update(array(_INT, payload))
    return groups


# The key group of a key, in Spark's SQL


def key_group(columns: Sequence[str], max_parallelism: int) -> Column:
    """Return the expression for the key group of a record.

    Args:
        columns: The key columns; their Spark types are part of the hash.  If there are no columns,
            there is one key.
        max_parallelism: The number of key groups.
    """
    if not columns:
        return F.lit(0)
    return F.pmod(_hash(columns), F.lit(max_parallelism)).cast("int")


def group_or_hash(columns: Sequence[str], max_parallelism: int | None) -> Column:
    """Return the expression for the key group of a record, or for the hash of its key.

    Args:
        columns: The key columns, as `key_group` takes them.
        max_parallelism: The number of key groups.  None if only the checkpoint knows it; packing
            then computes the remainder.
    """
    if max_parallelism is not None:
        return key_group(columns, max_parallelism)
    return _hash(columns) if columns else F.lit(0).cast("long")


def _hash(columns: Sequence[str]) -> Column:
    return F.xxhash64(*(F.col(quote(column)) for column in columns))
