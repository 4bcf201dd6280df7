# SPDX-License-Identifier: Apache-2.0
"""The optional package psycopg: checked here, when it is first needed."""

from __future__ import annotations

from pyflinklike.checks import install
from pyflinklike.errors import HostError

__all__ = ["check_psycopg"]


def check_psycopg() -> None:
    """Check that psycopg can be imported.

    Raises:
        HostError: psycopg is not installed, or lacks libpq.
    """
    try:
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = (
            f"a PostgresView needs the package psycopg, got {str(error).splitlines()[0]}; "
            f"{install('postgres')} on the driver and the executors"
        )
        raise HostError(msg) from error
