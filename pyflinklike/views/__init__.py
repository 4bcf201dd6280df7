# SPDX-License-Identifier: Apache-2.0
"""Tables that are kept up to date and queried: views, and what serves two of them as one."""

from pyflinklike.doors import pin
from pyflinklike.errors import QueueOverflowError, ScanDisabledError, UnknownBatchError
from pyflinklike.views.core.base import View
from pyflinklike.views.core.change import Change
from pyflinklike.views.core.freshness import Freshness
from pyflinklike.views.core.subscription import Changes
from pyflinklike.views.core.view_at import ViewAt
from pyflinklike.views.file.view import MaterializedView
from pyflinklike.views.postgres.view import PostgresView
from pyflinklike.views.serving_view import ServingView

__all__ = [
    "Change",
    "Changes",
    "Freshness",
    "MaterializedView",
    "PostgresView",
    "QueueOverflowError",
    "ScanDisabledError",
    "ServingView",
    "UnknownBatchError",
    "View",
    "ViewAt",
]

pin(globals())
