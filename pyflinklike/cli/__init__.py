# SPDX-License-Identifier: Apache-2.0
"""The command line: `pyflinklike state ...` looks into checkpoints and savepoints.

A command asks a checkpoint or a savepoint, through one interface, `Answers`.  Spark reads a
checkpoint, Arrow alone a savepoint.  A command's modules, and Spark, are imported only when the
command is called, so that `--help` is fast and a savepoint needs no Java.

| code | |
|---|---|
| 0 | the command is done, and found no damage, difference or refusal |
| 1 | `check` found damage, `diff` a difference, `get` no such key, `explain` a refusal, `failures --replay` the failure |
| 2 | the command could not be done: wrong usage, unreadable files, no such state or batch |
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from pyflinklike._checks import install
from pyflinklike.errors import PyflinklikeError

_COULD_NOT = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments behind the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        import click
        import rich  # noqa: F401 - so that it is missed before anything is printed
    except ImportError as error:
        msg = f"the command line needs click and rich, got no module {error.name!r}"
        sys.stderr.write(f"error: {msg}; {install('cli')} installs both\n")
        return _COULD_NOT
    from pyflinklike.cli.command import program

    # `standalone_mode=False`: click would exit by itself, with its own codes.
    try:
        code: int | None = program.main(given, prog_name="pyflinklike", standalone_mode=False)
        return code or 0
    except click.ClickException as error:
        error.show()
        return _COULD_NOT
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except Exception as error:
        return _report_error(error, shows_all="--traceback" in given)


def _report_error(error: Exception, *, shows_all: bool) -> int:
    if shows_all:
        traceback.print_exception(error)
    ours = isinstance(error, PyflinklikeError)
    text = (
        str(error.args[0] if error.args else error) if ours else f"{type(error).__name__}: {error}"
    )
    remedy = "" if ours or shows_all else " (--traceback shows where)"
    sys.stderr.write(f"error: {' '.join(text.split())}{remedy}\n")
    return _COULD_NOT
