# SPDX-License-Identifier: Apache-2.0
"""Opens the tables of a view and makes its writer: the one import of modules that need psycopg."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyflinklike.views.core.incoming import BatchReader
from pyflinklike.views.postgres.columns import checked_types
from pyflinklike.views.postgres.conninfo import Conninfo
from pyflinklike.views.postgres.database import Database
from pyflinklike.views.postgres.names import Names
from pyflinklike.views.postgres.writer import Writer

__all__ = ["opened"]


def opened(
    conninfo: Conninfo,
    schema: str,
    incoming: BatchReader,
    columns: Mapping[str, str] | None,
    history: int,
    clock: Callable[[], int],
    *,
    allow_gaps: bool,
    patience: int,
) -> tuple[Database, Writer]:
    """Open the tables of a view, and make its writer; the arguments are those of `PostgresView`.

    Args:
        conninfo: Where the server is.
        schema: The schema of PostgreSQL that has the tables.
        incoming: Reads the rows of the view.
        columns: The columns that SQL sees; None where they are not declared.
        history: The length of the history in batches.
        clock: Returns the time in ms since the epoch.
        allow_gaps: True permits a stream to skip batch ids.
        patience: How long to wait for another writer, in ms.
    """
    types = None if columns is None else checked_types(incoming.view, columns)
    names = Names(schema, incoming.view)
    database = Database(
        conninfo, names, incoming.key_columns, incoming.order_columns, types or {}, patience
    )
    return database, Writer(database, incoming, types, history, allow_gaps, clock)
