# SPDX-License-Identifier: Apache-2.0
"""What the page about the command line shows is what it prints."""

import re
import shlex

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from doc_snippets import ROOT, blocks_of

from pyflinklike.cli import main

PAGE = ROOT / "docs" / "how-to" / "read-state.md"
SHOWN = re.findall(r"^```console\n\$ pyflinklike (.*)\n((?:.*\n)*?)```$", PAGE.read_text(), re.M)


@pytest.fixture(scope="module")
def directory():
    """With the savepoints that the page makes."""
    namespace = {"__name__": "snippets"}
    for block in blocks_of(PAGE):
        if not block.mark:
            exec(block.compiled(), namespace)
    return namespace["directory"]


@pytest.mark.parametrize(("command", "expected"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(directory, monkeypatch, capsys, command, expected):
    """Where the page has `...` it may be anything."""
    monkeypatch.chdir(directory)
    main(shlex.split(command))
    told = capsys.readouterr()
    pattern = ".*".join(map(re.escape, expected.split("...")))
    assert re.fullmatch(pattern, told.out + told.err), told.out + told.err
