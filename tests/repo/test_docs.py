# SPDX-License-Identifier: Apache-2.0
"""The README and the pages under docs say what is so.

Every ```python block runs (`doc_snippets`): here, or with Spark in `tests/spark/test_spark_docs.py`.

The reference has an entry for every public name.  What an entry says is made of the docstring when
the site is built: `scripts/site.py` looks at that.
"""

import builtins
import datetime
import inspect
import pkgutil
import re
import symtable
import textwrap

import pytest
from doc_snippets import BLOCK, PAGES, ROOT, blocks_of, pages_with, run
from surroundings import is_installed

from pyflinklike import Types, errors
from pyflinklike._exports import PUBLIC_MODULES

REFERENCE = ROOT / "docs" / "reference"

# Pages that have links and no snippets of their own.
OTHERS = [
    ROOT / name
    for name in (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
        "examples/README.md",
        "tests/README.md",
        "tests/datastream.md",
    )
]

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_IMAGE = re.compile(r'\bsrc(?:set)?="([^"]+)"')
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors_of(page):
    """What a link into a page may name."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = [title.lower().replace("`", "") for title in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages_with(""))
def test_the_snippets_of_a_page_run(page):
    """Those that need nothing but the package."""
    run([block for block in blocks_of(page) if not block.mark])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_compiles(page):
    """Also those that are not run."""
    for block in blocks_of(page):
        assert block.compiled() is not None


def names_of(code):
    """The names that a module makes, and those that it or a function in it uses without making them."""
    made, used = set(), set()

    def look(table, *, is_module):
        for each in table.get_symbols():
            if is_module and (each.is_assigned() or each.is_imported() or each.is_namespace()):
                made.add(each.get_name())
            if each.is_referenced() and (is_module or each.is_global()):
                used.add(each.get_name())
        for child in table.get_children():
            look(child, is_module=False)

    look(symtable.symtable(code, "snippet", "exec"), is_module=True)
    return made, used - made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_snippet_imports_what_is_ours(page):
    """Or one before it on the page does; also in those that are not run, where nothing else would show it."""
    public = {
        name for door in PUBLIC_MODULES if can_be_resolved(door) for name in resolved(door).__all__
    }
    known, missing = set(), {}
    for block in blocks_of(page, "py"):
        made, used = names_of(block.code)
        if lacks := (used & {*public, "timedelta", "datetime", "Path", "dt"}) - known:
            missing[block.line] = sorted(lacks)
        known |= made

    assert {} == missing


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page):
    """A link inside the repository names a file that is there, and a heading that it has."""
    broken = []
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in _LINK.findall(text) + _IMAGE.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors_of(linked)):
            broken.append(target)

    assert [] == broken


def test_every_page_is_linked_from_the_index():
    """A page that the index does not name would not be found; the decisions have an index of their own."""
    indexes = [ROOT / "docs" / "index.md", ROOT / "docs" / "adr" / "index.md"]
    linked = {
        (index.parent / target).resolve()
        for index in indexes
        for target in _LINK.findall(index.read_text("utf-8"))
    }
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {indexes[0]}

    assert set() == pages - linked


# Examples in docstrings

_EXAMPLE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

STAND_INS = {
    *("Clean", "Count", "OverLimit", "RunningTotal", "LIMITS", "df", "late", "payments"),
    *("result", "rules", "spark", "write_main"),
}
"""Names in examples that stand for something of the reader's; such an example is compiled, not run."""


def examples():
    """The examples of the docstrings of the package, as parameters of a test."""
    for path in sorted((ROOT / "pyflinklike").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if "pyflink/" in name.removeprefix("pyflinklike/"):
            continue
        for at, (_, code) in enumerate(_EXAMPLE.findall(path.read_text("utf-8"))):
            yield pytest.param(textwrap.dedent(code), id=f"{name}-{at}")


@pytest.mark.parametrize("code", [*examples()])
def test_an_example_of_a_docstring_runs(code):
    """With all public names; those that need Spark or a stand-in have no name that is nobody's."""
    doors = [*sorted(PUBLIC_MODULES, key=lambda door: ".pyflink" in door)]
    shown = {name for door in doors if can_be_resolved(door) for name in resolved(door).__all__}
    known = {
        name: getattr(resolved(door), name)
        for door in reversed(doors)
        if not door.startswith(NEED_MORE) and can_be_resolved(door)
        for name in resolved(door).__all__
    }
    known["timedelta"] = datetime.timedelta
    _, used = names_of(code)

    unknown = {name for name in used if name not in known and not hasattr(builtins, name)}
    closed = [door for door in doors if not can_be_resolved(door)]
    if closed and unknown - STAND_INS - shown:
        pytest.skip(f"without the packages of {closed} its names cannot be looked up")

    assert set() == unknown - STAND_INS - shown
    if unknown:
        compile(code, "example", "exec")
    else:
        exec(code, {"__name__": "snippets", **known})


# The reference

# What is public is the `__all__` of these.
PUBLIC = [
    *sorted(PUBLIC_MODULES),
    "pyflinklike.conformance",
    "pyflinklike.testing.strategies",
]
ENTRIES = [
    entry
    for page in sorted(REFERENCE.glob("*.md"))
    for entry in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
]

_KAFKA = ("pyflinklike.kafka", "pyflinklike.pyflink.datastream.connectors.kafka")
NEEDED_BY = {
    "pyspark": (
        "pyflinklike.spark",
        "pyflinklike.monitoring",
        "pyflinklike.report",
        "pyflinklike.state_processor",
        *_KAFKA,
    ),
    "confluent_kafka": _KAFKA,
    "uvicorn": ("pyflinklike.queryable_state.http",),
}
"""Packages by the doors behind which they are needed."""
NEED_MORE = NEEDED_BY["pyspark"]


def can_be_resolved(entry):
    """Whether what an entry needs is installed."""
    return all(is_installed(each) for each, by in NEEDED_BY.items() if entry.startswith(by))


def resolved(entry):
    """What an entry of the reference describes; skips where that needs what is not installed."""
    if not can_be_resolved(entry):
        pytest.skip(f"{entry} needs packages that are not installed")
    return pkgutil.resolve_name(entry)


@pytest.mark.parametrize("door", PUBLIC)
def test_the_reference_has_an_entry_for_every_public_name(door):
    """Of the very object, be it under the name of another door."""
    public = {name: getattr(resolved(door), name) for name in resolved(door).__all__}
    described = [
        resolved(entry)
        for entry in ENTRIES
        if door == entry.rpartition(".")[0] or not entry.startswith(NEED_MORE)
    ]
    described += [getattr(errors, name) for name in errors.__all__]

    assert [] == [name for name, it in public.items() if not any(it is each for each in described)]


def test_what_the_reference_describes_has_a_docstring():
    """Constants are told apart by the site's own check, which reads the source."""
    here = {entry: resolved(entry) for entry in ENTRIES if can_be_resolved(entry)}

    assert [] == [entry for entry, it in here.items() if not (isinstance(it, int) or it.__doc__)]
    assert len(here) > 200


def test_no_entry_of_the_reference_stands_there_twice():
    """Links by name would lead to one of the two."""
    assert len(ENTRIES) == len(set(ENTRIES))


def signature(function, name):
    """A call as the tables of the reference write it: names and defaults, no annotations."""
    parameters = inspect.signature(function).parameters.values()
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return f"{name}{inspect.Signature(plain)}"


def missing(page, expected):
    """What a page of the reference does not have, written as code."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return [each for each in expected if f"`{each}`" not in text]


def test_the_reference_maps_all_of_kafka_streams():
    """Every numbered function and option of the documents that ask for the stores."""
    text = (REFERENCE / "stores.md").read_text(encoding="utf-8")
    numbers = [
        f"{part}{n:02}"
        for part, last in (("A", 14), ("B", 22), ("D", 6))
        for n in range(1, last + 1)
    ]

    assert numbers == sorted(re.findall(r"\b[ABD]\d\d\b", text))


def test_the_reference_maps_all_of_materializes_upsert():
    """Every numbered item of the document that asks for it."""
    text = (REFERENCE / "upsert.md").read_text(encoding="utf-8")

    numbers = [f"C{n:02}" for n in range(1, 22)]

    assert numbers == sorted(re.findall(r"\bC\d\d\b", text))


def test_the_reference_says_of_every_error_whose_fault_it_is():
    """One line each."""
    assert [] == missing("errors.md", errors.__all__)


def test_the_reference_says_what_every_type_holds():
    """Each of `Types`, by its call."""
    made = [
        signature(member.__func__, f"Types.{name}")
        for name, member in vars(Types).items()
        if isinstance(member, staticmethod)
    ]

    assert [] == missing("types.md", made)
