# SPDX-License-Identifier: Apache-2.0
"""Views: tables by key that a stream keeps up to date, and that any thread can query.

A `MaterializedView` is an SQLite file on the driver's machine; a `PostgresView` is in PostgreSQL.  Both have the
same interface, `View`: pull queries such as `get`, and push queries by `changes`.
"""

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
    from pyflinklike.views.materialized_view import MaterializedView
    from pyflinklike.views.postgres_view import PostgresView
    from pyflinklike.views.pull_query import ViewAt
    from pyflinklike.views.subscription import Change, Changes
    from pyflinklike.views.view import Freshness, View

    export_public(globals())
