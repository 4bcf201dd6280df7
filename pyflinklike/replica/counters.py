# SPDX-License-Identifier: Apache-2.0
"""The numbers that a replica counts of itself."""

from __future__ import annotations

import attrs

__all__ = ["ReplicaMetrics"]


@attrs.define
class ReplicaMetrics:
    """Sums since the replica was opened.

    Args:
        refreshes: Looks for newer micro-batches.
        failed_refreshes: Looks that ended in an error.
        batches: Micro-batches that the replica has come to, the first included.
        reopens: Times that everything was read anew, because later writes could not be followed.
        stored_bytes: Size in bytes of the logs that the replica holds, as they are stored.
        key_groups: Loads of a key group for a read.
        warm_loads: Loads of a group that was decoded already.
        caught_up_loads: Loads that decoded only the newer part of a log.
        cold_loads: Loads that decoded a whole log.
        repeated_loads: Cold loads of a group that was decoded before and had not changed:
            `cache_bytes` had no room for it.
        key_loads: Repeated loads that decoded only one key, for one read.
        decoded_bytes: Upper bound of the memory of all decoded groups, in bytes.
        compactions: Always 0, since a replica writes no log.
        segment_bytes: Always 0, for the same reason.
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
