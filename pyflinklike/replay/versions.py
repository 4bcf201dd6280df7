# SPDX-License-Identifier: Apache-2.0
"""The times from when until when the versions of a versioned store are valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.replay.codes import codes_of
from pyflinklike.replay.store_keys import number_at
from pyflinklike.stores.codec import INT_SIZE

__all__ = ["valid_from", "valid_to"]


def valid_from(stored: Mapping[str, Any]) -> Any:
    """Return the time of each version, in ms.

    Args:
        stored: The columns of `StoredTable.schema`, by name.
    """
    return number_at(stored["user_key"], -INT_SIZE)


def valid_to(stored: Mapping[str, Any]) -> Any:
    """Return the time of the next version of the same key, in ms; null for the latest."""
    user_keys, times = stored["user_key"], valid_from(stored)
    if not len(times):
        return times
    whose = [stored["key"]] if "key" in stored else []
    owners = codes_of([*whose, pc.binary_slice(user_keys, 0, -INT_SIZE)], len(user_keys))
    places = pc.sort_indices(
        pa.table({"owner": owners, "time": times}), [("owner", "ascending"), ("time", "ascending")]
    )
    owner, time = owners.take(places), times.take(places)
    none = pa.nulls(1, pa.int64())
    follower = pa.concat_arrays([time.slice(1), none])
    same = pc.equal(pa.concat_arrays([owner.slice(1), none]), owner).fill_null(False)
    nexts = pc.if_else(same, follower, none[0])
    return nexts.take(pc.sort_indices(places))
