# SPDX-License-Identifier: Apache-2.0
"""Tables by key that stay up to date and can be queried: views, and the union of two of them."""

from pyflinklike._exports import export_public, is_loading

__all__ = [
    "Change",
    "Changes",
    "Freshness",
    "MaterializedView",
    "PostgresView",
    "QueueOverflowError",
    "ScanDisabledError",
    "UnknownBatchError",
    "View",
    "ViewAt",
]

if is_loading(globals()):
    from pyflinklike.errors import QueueOverflowError, ScanDisabledError, UnknownBatchError
    from pyflinklike.views.file.materialized_view import MaterializedView
    from pyflinklike.views.postgres.postgres_view import PostgresView
    from pyflinklike.views.pull_query import ViewAt
    from pyflinklike.views.subscription import Change, Changes
    from pyflinklike.views.view import Freshness, View

    export_public(globals())
