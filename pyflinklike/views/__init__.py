# SPDX-License-Identifier: Apache-2.0
"""Tables by key that stay up to date and can be queried: views, and the union of two of them."""

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
