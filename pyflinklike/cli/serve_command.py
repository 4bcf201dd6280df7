# SPDX-License-Identifier: Apache-2.0
"""The command `serve`, which answers over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from socketserver import ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import click

from pyflinklike.cli.answer_choice import is_savepoint, operator_of
from pyflinklike.cli.command import Look, command
from pyflinklike.errors import DeclarationValueError
from pyflinklike.queryable_state.http.application import app
from pyflinklike.queryable_state.queryable_state import QueryableState, open_state

_HOST = "127.0.0.1"
_NAMES = ("localhost", _HOST, "[::1]")
_VARIABLE = "PYFLINKLIKE_SERVE_TOKEN"
_SLOWEST_S = 30
"""The time in seconds that a client has to send its request."""


@command("serve")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0 for any."
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
    """Answer over HTTP on 127.0.0.1 until it is interrupted; for looking only.

    A checkpoint is followed while its query runs.  With a token, requests must have the header
    "Authorization: Bearer TOKEN".
    """
    if look.batch is not None:
        msg = f"serve follows the last batch, got --batch {look.batch}; leave it out"
        raise DeclarationValueError(msg)
    token = os.environ.get(_VARIABLE) if token_file is None else token_file.read().strip()
    with ExitStack() as stack:
        served = app(stack.enter_context(_replica(look)), hosts=(*_NAMES, *names), token=token)
        server = stack.enter_context(_server(port, served))
        address = f"http://{_HOST}:{server.server_port}/states"
        look.printer.rows([{"address": address}], ["address"])
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            look.printer.note("interrupted")
    return 0


@contextmanager
def _replica(look: Look) -> Iterator[QueryableState]:
    if is_savepoint(look.path):
        with open_state(look.path, operator=look.operator, allow_scan=True) as state:
            yield state
        return
    from pyflinklike.cli.answer_choice import session

    with session(look.master, look.path, quiet=not look.traceback) as spark:
        from pyflinklike.spark import open_state as open_followed

        operator = operator_of(look.operator)
        chosen = 0 if operator is None else operator
        with open_followed(spark, look.path, operator=chosen, allow_scan=True) as state:
            yield state


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Quiet(WSGIRequestHandler):
    timeout = _SLOWEST_S

    def log_message(self, *_: object) -> None:
        """Print nothing for a request."""


def _server(port: int, application: Any) -> WSGIServer:
    try:
        return make_server(_HOST, port, application, _Server, _Quiet)
    except OSError as error:
        msg = f"--port must be one that nobody listens to, got {port} ({error})"
        raise DeclarationValueError(f"{msg}; give another, or 0 for any") from error
