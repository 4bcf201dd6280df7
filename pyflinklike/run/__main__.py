# SPDX-License-Identifier: Apache-2.0
"""Runs a script that was written for PyFlink: `python -m pyflinklike.run [options] job.py ...`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from pyflinklike.errors import DeclarationError, RefusedNameError
from pyflinklike.run import install


def main(arguments: list[str]) -> None:
    """Run a script.

    Args:
        arguments: The arguments of the command line, without the program's name.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pyflinklike.run",
        description="Runs a script that was written for PyFlink, without changes.",
    )
    parser.add_argument(
        "--target",
        choices=["local", "spark"],
        help="where jobs run: in this process or on Spark; without it a job whose sources end runs in "
        "this process, and one with a source that does not end on Spark",
    )
    parser.add_argument(
        "-D", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="a setting"
    )
    parser.add_argument(
        "--shadow",
        action="store_true",
        help="hide a PyFlink that is installed, instead of refusing",
    )
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    _pass_settings(given, parser)
    script = Path(given.script)
    if not (script.is_file() or (script / "__main__.py").is_file()):
        parser.error(
            f"a script is a file, or a folder with a __main__.py, got {given.script!r}, which is "
            f"{'a folder without one' if script.is_dir() else 'not there'}; give its path from {Path.cwd()}"
        )
    try:
        install(shadow=given.shadow)
    except DeclarationError as error:
        parser.error(str(error))
    # The script sees the arguments and the import path that `python job.py` would give it.
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, str((script if script.is_dir() else script.parent).resolve()))
    try:
        runpy.run_path(given.script, run_name="__main__")
    except Exception as error:
        # Python itself would show the frames from the script on, without this runner's.
        error.__traceback__ = _of_script(error, script)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _pass_settings(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Put the settings of the command line where `Configuration` reads its defaults."""
    for setting in given.settings:
        if "=" not in setting or ";" in setting:
            parser.error(
                f"-D takes KEY=VALUE without ';', got {setting!r}; give each setting its own -D"
            )
    settings = [*given.settings]
    if given.target:
        settings.append(f"execution.target={given.target}")
    if settings:
        before = os.environ.get("PYFLINKLIKE_CONFIGURATION", "")
        os.environ["PYFLINKLIKE_CONFIGURATION"] = ";".join(filter(None, [before, *settings]))


def _of_script(error: Exception, script: Path) -> TracebackType | None:
    """Return the traceback without the frames above the script and failed imports' frames below."""
    frames = list(_frames(error.__traceback__))
    inside = script.resolve()
    while frames and not _is_of(frames[0], inside):
        frames.pop(0)
    if isinstance(error, (ImportError, RefusedNameError)):
        while frames and _finds_names(frames[-1]):
            frames.pop()
    last: TracebackType | None = None
    for frame in reversed(frames):
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return last


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_of(frame: TracebackType, script: Path) -> bool:
    name = Path(frame.tb_frame.f_code.co_filename)
    # Python runs a folder by its __main__.py, and some frames have no file: "<frozen runpy>".
    return name.is_file() and name.resolve() in (script, script / "__main__.py")


def _finds_names(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__", ""))
    return module.startswith(("pyflinklike.", "importlib.")) or module == "importlib"


if __name__ == "__main__":
    main(sys.argv[1:])
