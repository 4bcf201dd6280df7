# SPDX-License-Identifier: Apache-2.0
"""The notebooks of `examples/`: their code runs, and shows what is stored as its output."""

import importlib.util
import json
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner():
    """`scripts/notebook.py` as a module."""
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "scripts" / "notebook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs_of(cells):
    """What is stored below each cell."""
    return [cell["outputs"] for cell in cells]


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_code_gives(path, runner, spark):
    """`python scripts/notebook.py examples/*.ipynb` writes it anew."""
    cells = runner.code_cells(json.loads(path.read_text("utf-8")))

    assert outputs_of(cells) == runner.run(cells, path.name)


def test_a_cell_shows_what_it_prints_and_its_last_expression(runner):
    """As Jupyter does; None is not shown."""
    sources = ["x = 2\nprint('a')\nx + 1", "x", "None", "y = x\n", ""]
    outputs = runner.run([{"source": [each]} for each in sources], "made up")
    shown = [[each.get("text") or each["data"]["text/plain"] for each in cell] for cell in outputs]

    assert [[["a\n"], ["3"]], [["2"]], [], [], []] == shown


def test_an_error_names_its_cell(runner):
    """In the traceback, where a file's name would stand."""
    with pytest.raises(ZeroDivisionError) as failed:
        runner.run([{"source": ["1\n"]}, {"source": ["x = 1\n", "x / 0\n"]}], "made up")

    last = traceback.extract_tb(failed.tb)[-1]
    assert ("made up, code cell 2", 2) == (last.filename, last.lineno)
