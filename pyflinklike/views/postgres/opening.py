# SPDX-License-Identifier: Apache-2.0
"""Opens the tables of a view, and makes its writer: what needs psycopg, in one place."""

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
    """The tables of a view, and what writes to them; the arguments are those of `PostgresView`.

    Args:
        conninfo: Where the server is.
        schema: Of PostgreSQL.
        incoming: Reads the rows of the view.
        columns: What SQL sees, if it is declared.
        history: How many batches are kept.
        clock: Gives the time in ms since the epoch.
        allow_gaps: Whether a stream may skip batch ids.
        patience: How long to wait for another writer, in ms.
    """
    types = None if columns is None else checked_types(incoming.view, columns)
    names = Names(schema, incoming.view)
    database = Database(
        conninfo, names, incoming.key_columns, incoming.order_columns, types or {}, patience
    )
    return database, Writer(database, incoming, types, history, allow_gaps, clock)
