# SPDX-License-Identifier: Apache-2.0
"""What a replica counts of itself."""

from __future__ import annotations

import attrs

__all__ = ["ReplicaMetrics"]


@attrs.define
class ReplicaMetrics:
    """Sums since the replica was opened.

    Args:
        refreshes: How often it looked for newer micro-batches.
        failed_refreshes: Of these, those that could not be read.
        batches: Micro-batches that it has come to, the first included.
        reopens: How often all was read anew, because what came since could not be followed.
        stored_bytes: Size of the logs it holds, as they are stored.
        key_groups: Key groups that were looked into.
        warm_loads: Of these, those that were decoded already.
        caught_up_loads: Those of which only what is new was decoded.
        cold_loads: Those that were decoded from their whole log.
        repeated_loads: Of these, those that were decoded before and had not changed: `cache_bytes`
            had no room for them.
        key_loads: Of these, those of which only one key was decoded, for one read.
        decoded_bytes: What is decoded weighs at most, in memory.
        compactions: Always 0: a replica writes no log.
        segment_bytes: Likewise.
    """

    refreshes: int = 0
    failed_refreshes: int = 0
    batches: int = 0
    reopens: int = 0
    stored_bytes: int = 0
    key_groups: int = 0
    warm_loads: int = 0
    caught_up_loads: int = 0
    cold_loads: int = 0
    repeated_loads: int = 0
    key_loads: int = 0
    decoded_bytes: int = 0
    compactions: int = attrs.field(default=0, repr=False)
    segment_bytes: int = attrs.field(default=0, repr=False)
