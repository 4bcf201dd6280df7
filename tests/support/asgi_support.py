# SPDX-License-Identifier: Apache-2.0
"""Requests to an ASGI application without a socket, so that any bytes can be in them; and a server."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra `http`)")
from starlette.datastructures import Headers  # noqa: E402  after the check


def ask(application: Any, *request: Any) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer to a request with the arguments of `answer_of`."""
    return asyncio.run(answer_of(application, *request))


async def answer_of(
    application: Any,
    path: str,
    query: bytes = b"",
    method: str = "GET",
    headers: Mapping[str, bytes] | None = None,
) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer.

    The path is decoded, as a server gives it to an application.  The headers are by their names in
    small letters; the host is 127.0.0.1 if they have no other.
    """
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": b"127.0.0.1", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 50_000),
        "root_path": "",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(name.encode(), value) for name, value in given.items()],
    }
    await application(scope, receive, send)
    begun, *rest = sent
    # A server leaves the body out.
    body = b"" if method == "HEAD" else b"".join(each["body"] for each in rest)
    return begun["status"], Headers(raw=begun["headers"]), body


@contextmanager
def serving(application: Any) -> Iterator[str]:
    """The address of a server that runs the application."""
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = threading.Thread(target=server.run, args=([listening],))
        running.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            running.join()
