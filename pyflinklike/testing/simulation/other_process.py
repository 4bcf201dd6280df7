# SPDX-License-Identifier: Apache-2.0
"""A second Python process, in which strings have other hashes: sets have another order there.

Python draws the hashes of strings anew in each process, and so do Spark's workers.  Within one
process a set has one order, so a function that goes by it is found only by another process.  It
waits for histories on its standard input, lets the oracle say what comes of them, and stays until
the process that started it ends.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, BinaryIO

import attrs
from pyspark import cloudpickle

from pyflinklike.errors import DeclarationError
from pyflinklike.testing.simulation.oracle import expect_of
from pyflinklike.testing.simulation.program import Expected, MicroBatch, SimulatedOperator

__all__ = ["OtherProcess", "Told", "serve"]

_LENGTH = struct.Struct(">Q")
Told = tuple[Sequence[MicroBatch], Sequence[SimulatedOperator]]
"""The micro-batches of a run, and the operators that ran them."""


class OtherProcess:
    """The process; it is started at once, and is ready when it is first asked."""

    _running: OtherProcess | None = None

    def __init__(self) -> None:
        own = os.environ.get("PYTHONHASHSEED")
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            env={**os.environ, "PYTHONHASHSEED": "2" if own == "1" else "1", "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self.end)

    @classmethod
    def start(cls) -> OtherProcess:
        """Return the one that runs, or start one."""
        if cls._running is None or cls._running._process.poll() is not None:
            cls._running = cls()
        return cls._running

    def expect(self, runs: Sequence[Told], modules: Sequence[ModuleType]) -> list[Expected]:
        """Return what must come of runs, in the other process.

        Args:
            runs: To be told there.
            modules: Of the user's code: they are taken along by value, where that can be.

        Raises:
            DeclarationError: The function could not be taken there, or failed there.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, _dumps(runs, modules))
            answer = pickle.loads(_read(process.stdout))  # written by this very package
        except (OSError, EOFError) as error:
            self.end()
            msg = "the other Python process must live as long as simulate, got its end; see its output"
            raise DeclarationError(msg) from error
        except BaseException:  # a break by the user: its answer must not be taken for the next one
            self.end()
            raise
        if isinstance(answer, str):
            msg = (
                "a function must run in another Python process, as it does on Spark, got an error "
                f"there: {answer}; or pass other_process=False"
            )
            raise DeclarationError(msg)
        expected: list[Expected] = answer
        return expected

    def end(self) -> None:
        """End the process."""
        type(self)._running = None
        for each in (self._process.stdin, self._process.stdout):
            if each is not None and not each.closed:
                with suppress(OSError):
                    each.close()
        self._process.kill()
        self._process.wait()


def _dumps(runs: Sequence[Told], modules: Sequence[ModuleType]) -> bytes:
    nobody: Any = None  # the program itself stays here
    told = [
        ([attrs.evolve(each, program=nobody) for each in history], operators)
        for history, operators in runs
    ]
    pickler: Any = cloudpickle
    taken = [
        each for each in modules if each.__name__ not in pickler.list_registry_pickle_by_value()
    ]
    for each in taken:
        pickler.register_pickle_by_value(each)
    try:
        dumped: bytes = pickler.dumps(told)
        return dumped
    except Exception:  # something in a module does not pickle: it is imported there
        pass
    finally:
        for each in taken:
            pickler.unregister_pickle_by_value(each)
    by_name: bytes = pickler.dumps(told)
    return by_name


def _write(stream: BinaryIO | Any, content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def _read(stream: BinaryIO | Any) -> bytes:
    length: bytes = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    content: bytes = stream.read(_LENGTH.unpack(length)[0])
    return content


def serve() -> None:
    """Answer histories until there are no more: what the other process does."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the function prints is no answer
    while True:
        try:
            told = _read(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any
        try:
            answer = [
                expect_of(history, [operators] * len(history))
                for history, operators in pickle.loads(told)  # from the process that started this
            ]
        except Exception as error:  # told over there
            answer = f"{type(error).__name__}: {error}"
        _write(answers, pickle.dumps(answer))
