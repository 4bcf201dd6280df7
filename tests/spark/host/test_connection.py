# SPDX-License-Identifier: Apache-2.0
"""A worker's JVM need not wait until the kernel acknowledges the pickle of a stage."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from pyflinklike.spark._host.driver_pickle import acknowledge_pickle

_UNACKED_AT = 24  # in Linux's struct tcp_info
_TRIES = 200

on_linux = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="acknowledgements are asked for on Linux alone"
)


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The JVM's end and the worker's of a local connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        jvm = socket.create_connection(server.getsockname())
        worker, _ = server.accept()
    with jvm, worker:
        yield jvm, worker


def segments_in_flight(sender: socket.socket) -> int:
    """How many segments of a sender are not acknowledged yet."""
    told = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
    return int(struct.unpack_from("I", told, _UNACKED_AT)[0])


def send_pickle(jvm: socket.socket, worker: socket.socket) -> None:
    """Have a worker answer once, as with the result of a task, and read the next pickle."""
    jvm.sendall(b"records")
    worker.recv(100)
    worker.sendall(b"result")
    jvm.recv(100)
    jvm.sendall(b"pickle")
    worker.recv(100)


@on_linux
def test_what_was_read_is_acknowledged_at_once(connection):
    """So the kernel does not keep the next write of the other end back."""
    jvm, worker = connection
    for _ in range(_TRIES):
        send_pickle(jvm, worker)
        if segments_in_flight(jvm):  # else the kernel's 40 ms were over already
            acknowledge_pickle()
            assert segments_in_flight(jvm) == 0
            return
    pytest.fail("the kernel never waited with an acknowledgement")


@on_linux
def test_a_default_timeout_does_not_make_a_connection_non_blocking(connection):
    """A function of the user's may set one; PySpark's reads would then raise."""
    _, worker = connection
    socket.setdefaulttimeout(3)
    try:
        acknowledge_pickle()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(worker.fileno())


def test_what_is_no_tcp_connection_is_left_alone(tmp_path):
    """Unix domain sockets with and without a name, a datagram, a pipe, a file, and a server."""
    name = str(tmp_path / "socket")
    reading, writing = os.pipe()
    with (
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX) as client,
        socket.socket(type=socket.SOCK_DGRAM) as datagram,
        socket.create_server(("127.0.0.1", 0)),
        (tmp_path / "file").open("w"),
        os.fdopen(reading),
        os.fdopen(writing, "w"),
    ):
        server.bind(name)
        server.listen()
        client.connect(name)
        datagram.connect(("127.0.0.1", 9))
        one, other = socket.socketpair()
        with one, other:
            opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
            acknowledge_pickle()
            left = len(os.listdir("/proc/self/fd")) if opened else 0
    assert left == opened
