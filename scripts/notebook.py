# SPDX-License-Identifier: Apache-2.0
"""Runs the code of notebooks and writes what it shows into them: python scripts/notebook.py FILE...

The cells run in this process, one after another in one namespace, as a kernel would run them; so no
Jupyter is needed.  A cell shows what it prints, and the `repr` of its last line if that is an
expression.  Magic commands and pictures are not for the notebooks of this repository.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """The cells with code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(cells: list[Cell], name: str) -> list[list[Cell]]:
    """Run cells.

    Args:
        cells: With code.
        name: Of the file, for tracebacks.

    Returns:
        The outputs of each, as a notebook keeps them.
    """
    # No module has this name, so that Spark takes classes along by value, as from a notebook.
    namespace: dict[str, Any] = {"__name__": "notebook"}
    return [
        _outputs("".join(cell["source"]), f"{name}, code cell {number}", number, namespace)
        for number, cell in enumerate(cells, 1)
    ]


def _outputs(source: str, name: str, number: int, namespace: dict[str, Any]) -> list[Cell]:
    body = ast.parse(source, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), name, "exec"), namespace)  # noqa: S102  # our notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
    outputs: list[Cell] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        result = {"data": shown, "metadata": {}, "output_type": "execute_result"}
        outputs.append({**result, "execution_count": number})
    return outputs


def main(paths: list[str]) -> None:
    """Run notebooks and write them again."""
    for path in map(Path, paths):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = code_cells(notebook)
        for number, (cell, outputs) in enumerate(zip(cells, run(cells, path.name)), 1):
            cell.update(execution_count=number, outputs=outputs)
        text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
