# SPDX-License-Identifier: Apache-2.0
"""Runs a script that was written for PyFlink: `python -m pyflinklike.run [options] job.py ...`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from pyflinklike.run.finder import install


def main(arguments: list[str]) -> None:
    """Run a script.

    Args:
        arguments: The arguments of the command line, without the program's name.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pyflinklike.run",
        description="Runs a script that was written for PyFlink, without changes.",
    )
    parser.add_argument("--target", choices=["local", "spark"], help="where jobs run")
    parser.add_argument(
        "-D", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="a setting"
    )
    parser.add_argument("--shadow", action="store_true", help="also where PyFlink is installed")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    settings = [*given.settings]
    if given.target:
        settings.append(f"execution.target={given.target}")
    if settings:
        before = os.environ.get("PYFLINKLIKE_CONFIGURATION", "")
        os.environ["PYFLINKLIKE_CONFIGURATION"] = ";".join(filter(None, [before, *settings]))
    install(shadow=given.shadow)
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, str(Path(given.script).resolve().parent))
    runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
