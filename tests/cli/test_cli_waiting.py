# SPDX-License-Identifier: Apache-2.0
"""The line that tells what a command waits for."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr

import pytest

pytest.importorskip("rich")
pytest.importorskip("pty")

import pty

from pyflinklike.cli.answers import end_waiting, tell_waiting


def shown(script):
    """What a terminal that is standard error shows of a script."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, redirect_stderr(terminal):
        script()
    found = b""
    try:
        while some := os.read(ours, 4096):
            found += some
    except OSError:  # the other end is closed: Linux says so by an error
        pass
    os.close(ours)
    return found.decode()


def test_a_terminal_shows_what_is_waited_for(monkeypatch):
    """With the time that it has taken so far; a path may look like rich's marks."""
    monkeypatch.setenv("TERM", "xterm")

    def script():
        with tell_waiting(quiet=True) as say:
            say("reading [red]/data")

    written = shown(script)

    assert (True, True) == ("reading [red]/data" in written, "0:00:00" in written)


def test_the_line_is_gone_before_an_answer_is_printed():
    """What is said later shows nothing."""

    def script():
        with tell_waiting(quiet=True) as say:
            end_waiting()
            sys.stderr.write("the answer")
            say("starting Spark")

    written = shown(script)

    assert ("the answer", False) == (written[-10:], "starting Spark" in written)


def test_where_java_prints_nothing_else_is_shown():
    """With --traceback the two would be mixed."""

    def script():
        with tell_waiting(quiet=False) as say:
            say("starting Spark")

    assert "" == shown(script)


def test_a_pipe_is_told_nothing(capfd):
    """So the log of a cron job has what is wrong and no more."""
    with tell_waiting(quiet=True) as say:
        say("starting Spark")

    assert ("", "") == capfd.readouterr()
