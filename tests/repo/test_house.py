# SPDX-License-Identifier: Apache-2.0
"""`scripts/house.py`: what it says of a package."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "house.py"


@pytest.fixture(scope="module")
def house():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(house, tmp_path):
    """Makes a package of sources by path."""

    def make(**sources):
        for name, source in {"__init__": "", **sources}.items():
            path = tmp_path / "house_of" / f"{name.replace('__of__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return house.package_at(tmp_path / "house_of")

    return make


def test_a_room_is_a_folder_or_a_module_of_the_root(package):
    """A nested folder is a room of its own, and what it imports of itself is no arrow."""
    found = package(
        clock="",
        a__of____init__="",
        a__of__x="from house_of import clock\nfrom house_of.a import y\nfrom house_of.a.b.z import Z",
        a__of__y="",
        a__of__b__of__z="import house_of.clock",
    )

    rooms = found.rooms()

    assert {"clock", "a.b"} == rooms["a"]
    assert {"clock"} == rooms["a.b"]


def test_every_import_counts(package):
    """Relative, inside a function, and for annotations only."""
    found = package(
        x="from . import y",
        y="def f():\n    import house_of.z",
        z="if TYPE_CHECKING:\n    from .w import W",
        w="import json",
    )

    assert {"x": {"y"}, "y": {"z"}, "z": {"w"}, "w": set(), "": set()} == found.modules


def test_a_circle_is_found(house):
    """Also one of three, with something above and below it."""
    graph = {"top": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "low"}, "low": set()}

    assert [["a", "b", "c"]] == house.circles(graph)


def test_a_module_that_two_ways_lead_to_is_no_circle(house):
    """Two ways to one module make a diamond."""
    graph = {"top": {"left", "low"}, "left": {"low"}, "low": set()}

    assert [] == house.circles(graph)


def test_a_function_is_as_long_as_its_body_without_the_docstring(package):
    """The signature does not count, nor what it says of itself."""
    source = 'def f(\n    x,\n):\n    """Says\n    much."""\n    y = x\n\n    return y\n'

    assert [("x:f", 3)] == list(package(x=source).functions())


def test_the_report_names_what_it_counts(house, package):
    """Numbers at the end, and the circle by name."""
    found = package(x="from house_of import y", y="from house_of import x")
    lines = "\n".join(house.report([found]))

    assert "Circles of modules:\n  x y" in lines
    assert re.search(r"circles of modules +1$", lines, re.MULTILINE)


def test_two_trees_stand_side_by_side(house, package):
    """What a change of the layout brought is read in one table."""
    found = package(x="import json\n\n# Why.\nx = 1\n")

    lines = list(house.report([found, found]))

    assert f"{'own-line comments in 1,000 code lines':44}{500:>10}{500:>10}" in lines


def test_code_is_what_neither_explains_nor_is_empty(package):
    """Docstrings, comments, blank lines and the licence are none."""
    source = '# SPDX\n"""Tells."""\n\n# Why.\nx = [\n    1,\n]\n\n\ndef f():\n    """Says."""\n    return x\n'

    found = package(x=source).sources["x"]

    assert ({5, 6, 7, 10, 12}, 1) == (found.code_lines, found.own_line_comments)


def test_an_entry_under_args_is_its_text(package):
    """Of functions and classes, with what continues it, and up to the next section."""
    source = (
        'def f(a, b):\n    """Do.\n\n    Args:\n        a: In ms,\n            from 1970.\n'
        '        b: It.\n\n    Returns:\n        c: No entry.\n    """\n'
    )

    assert ["In ms, from 1970.", "It."] == list(package(x=source).sources["x"].arguments())


def test_a_helper_of_one_module_is_found(package):
    """Only where both are in one folder: across folders an importer is somebody else."""
    found = package(
        a__of____init__="",
        a__of__user="from house_of.a import helper\nfrom house_of import shared",
        a__of__helper="",
        shared="",
    )

    assert [("a.helper", "a.user")] == list(found.with_one_importer())


def test_the_package_has_no_circle(house):
    """Neither of rooms nor of modules: each can be understood after what it imports."""
    package = house.package_at(SCRIPT.parent.parent)

    assert [] == house.circles(package.rooms())
    assert [] == house.circles(package.modules)


def test_two_classes_of_one_name_are_found(package):
    """A nested class and a function of that name do not count."""
    found = package(
        x="class A: ...\nclass B: ...",
        y="class A:\n    class B: ...\ndef B(): ...",
    )

    assert {"A": ["x", "y"]} == found.repeated_classes()


def test_an_import_that_leaves_the_core_is_found(house, package):
    """Groups go by the first folder: `state` is of the core, `windows` a program on it."""
    found = package(
        state__of____init__="from house_of.windows import x\nfrom house_of import errors",
        errors="",
        windows__of____init__="from house_of import state",
        windows__of__x="",
    )

    assert [("state", "windows.x")] == list(found.leaving())


def test_the_core_has_fewer_than_20000_code_lines(house):
    """Who adds to it takes something away."""
    package = house.package_at(SCRIPT.parent.parent)

    assert house.numbers(package)["code lines of the core"] < 20_000


def test_no_import_of_the_core_leaves_it(house):
    """The core can be read, tested and carried on alone."""
    assert [] == list(house.package_at(SCRIPT.parent.parent).leaving())


def parts_of(line):
    """A line of the map without its size, and the size."""
    text, _, size = line.rstrip(" |").rpartition(" | ")
    return text, int(size.replace(",", ""))


def test_the_architecture_has_the_map_of_rooms(house):
    """`python scripts/house.py --table` prints it; sizes may be off by a fifth."""
    page = (ROOT / "docs/explanation/architecture.md").read_text("utf-8").splitlines()
    header, rule, *rows = house.table(house.package_at(ROOT))
    begin = page.index(header)

    shown = [parts_of(line) for line in page[begin + 2 : begin + 2 + len(rows)]]
    expected = [parts_of(row) for row in rows]

    assert rule == page[begin + 1]
    assert [text for text, _ in expected] == [text for text, _ in shown]
    assert [] == [
        (text, is_now, size)
        for (text, is_now), (_, size) in zip(expected, shown, strict=True)
        if abs(is_now - size) > max(200, is_now / 5)
    ]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/walks.md"])
def test_the_files_that_a_page_names_are_there(page):
    """Paths of the package stand in code, from the package's folder on, without a `*`."""
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", (ROOT / page).read_text("utf-8")))

    assert named
    assert [] == [
        name for name in named if not any((ROOT / at / name).exists() for at in ("", "pyflinklike"))
    ]
