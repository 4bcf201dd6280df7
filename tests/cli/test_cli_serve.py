# SPDX-License-Identifier: Apache-2.0
"""`pyflinklike state serve`: a process that answers until it is interrupted."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.cli import main
from pyflinklike.state_processor import write_savepoint
from pyflinklike.testing import KeyedProcessHarness


class Total(KeyedProcessFunction):
    """A sum."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        return []


@pytest.fixture
def savepoint(tmp_path):
    """Of one key."""
    path = tmp_path / "saved"
    with KeyedProcessHarness(Total(), lambda each: each[0], key_type=Types.STRING()) as harness:
        harness.process_element(("ann", 7))
        write_savepoint(harness, path)
    return str(path)


@pytest.fixture
def interrupts():
    """Reach the processes of a test, also where the tests themselves run in a shell's background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@contextmanager
def serving(savepoint, *options, **environment):
    """The address of a process that serves it, and the process."""
    command = [sys.executable, "-m", "pyflinklike", "state", "serve", savepoint]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json", *options],
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        yield json.loads(process.stdout.readline())["address"], process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def status_of(address, **headers):
    """Of a request with these headers."""
    named = {name.capitalize(): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=named)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.usefixtures("interrupts")
def test_a_savepoint_is_served_until_it_is_interrupted(savepoint):
    """The address is the first line; no session is started."""
    with serving(savepoint) as (address, process):
        with urllib.request.urlopen(f"{address}/total?key=ann") as answer:
            assert {"key": "ann", "value": 7} == json.load(answer)
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(30)


def test_a_web_page_cannot_read_state(savepoint):
    """Its requests come under its own name, wherever that leads to."""
    with serving(savepoint, "--host-name", "state.example") as (address, _):
        hosts = ("localhost:1", "[::1]", "state.example", "evil.example")
        found = [status_of(address, host=each) for each in hosts]
    assert [200, 200, 200, 421] == found


def test_a_token_is_taken_from_the_environment_or_a_file(savepoint, tmp_path):
    """And not from the arguments, which all users of a machine see."""
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    found = []
    for options, environment in (
        ([], {"PYFLINKLIKE_SERVE_TOKEN": "s3cret"}),
        (["--token-file", str(secret)], {}),
    ):
        with serving(savepoint, *options, **environment) as (address, _):
            found += [status_of(address), status_of(address, authorization="Bearer s3cret")]
    assert [401, 200, 401, 200] == found


def test_what_cannot_be_served_is_refused(savepoint, capsys):
    """A port that is taken, and a batch."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert 2 == main(["state", "serve", savepoint, "--port", port])
        assert 2 == main(["state", "serve", savepoint, "--batch", "3"])
    told = capsys.readouterr().err
    assert "must be free" in told
    assert "leave it out" in told
