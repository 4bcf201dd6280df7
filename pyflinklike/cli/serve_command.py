# SPDX-License-Identifier: Apache-2.0
"""The command `serve` answers over HTTP; it needs the extra `http`."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from pyflinklike._checks import lacking
from pyflinklike.cli.answer_choice import is_savepoint, operator_of
from pyflinklike.cli.command import Look, command
from pyflinklike.errors import DeclarationValueError
from pyflinklike.queryable_state.queryable_state import QueryableState

if TYPE_CHECKING:
    import uvicorn

_HOST = "127.0.0.1"
# Another name in the header `Host` may come from a web page whose name now leads here (DNS rebinding).
_NAMES = ("localhost", _HOST, "[::1]")
_VARIABLE = "PYFLINKLIKE_SERVE_TOKEN"


@command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="0 takes any free one.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    help="Also answer requests to this name, besides localhost, 127.0.0.1 and [::1].",
)
@click.option(
    "--token-file",
    type=click.File(encoding="ascii", errors="replace"),
    help=f"A file with a token that requests must give; or set {_VARIABLE}.",
)
def _serve(look: Look, port: int, names: tuple[str, ...], token_file: TextIO | None) -> int:
    """Answer over HTTP on 127.0.0.1 until it is interrupted; it only reads.

    While the query of a checkpoint runs, the answers follow it. If a token is given, requests must
    have the header "Authorization: Bearer TOKEN".
    """
    from pyflinklike.queryable_state.http import app

    if look.batch is not None:
        msg = f"serve follows the last batch, got --batch {look.batch}; leave it out"
        raise DeclarationValueError(msg)
    token = os.environ.get(_VARIABLE) if token_file is None else token_file.read().strip()
    with ExitStack() as stack:
        served = app(stack.enter_context(_replica(look)), hosts=(*_NAMES, *names), token=token)
        listening = stack.enter_context(_listen(port))
        address = f"http://{_HOST}:{listening.getsockname()[1]}/states"
        look.printer.rows([{"address": address}], ["address"])
        try:
            _server(served).run([listening])
        except KeyboardInterrupt:
            look.printer.note("interrupted")
    return 0


@contextmanager
def _replica(look: Look) -> Iterator[QueryableState]:
    if is_savepoint(look.path):
        with QueryableState.open_savepoint(
            look.path, operator=look.operator, allow_scan=True
        ) as state:
            yield state
        return
    from pyflinklike.cli.answer_choice import session

    with session(look.master, look.path, quiet=not look.traceback) as spark:
        operator = operator_of(look.operator)
        chosen = 0 if operator is None else operator
        with QueryableState.open(spark, look.path, operator=chosen, allow_scan=True) as state:
            yield state


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port), backlog=128)
    except OSError as error:
        msg = f"--port must be free on {_HOST}, got {port} ({error})"
        raise DeclarationValueError(f"{msg}; give another, or 0 for any") from error


def _server(application: Any) -> uvicorn.Server:
    try:
        import uvicorn
    except ImportError as error:
        raise lacking("pyflinklike state serve", "http", error) from error
    # A request may wait for a batch for minutes; an interrupted command cuts it off after a second.
    return uvicorn.Server(
        uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    )
