# SPDX-License-Identifier: Apache-2.0
"""From change events to a table that can be queried."""

from pyflinklike.errors import QueueOverflowError, ScanDisabledError, UnknownBatchError
from pyflinklike.upsert.views import (
    Change,
    Changes,
    Freshness,
    MaterializedView,
    ServingView,
    ViewAt,
)

__all__ = [
    "Change",
    "Changes",
    "Freshness",
    "MaterializedView",
    "QueueOverflowError",
    "ScanDisabledError",
    "ServingView",
    "UnknownBatchError",
    "ViewAt",
]
