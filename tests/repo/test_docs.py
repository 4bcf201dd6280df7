# SPDX-License-Identifier: Apache-2.0
"""The README and the pages under docs say what is so.

Every ```python block runs.  The blocks of one page share their names, in order.  A comment
right before a block says what it needs:

    <!-- spark -->              runs where there is a session, called `spark`
    <!-- not run: reason -->    is only compiled

The reference names every public name, with the signature it has.
"""

import ast
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

import pyflinklike
from pyflinklike import (
    KeyedProcessFunction,
    StateTtlConfig,
    Types,
    cdc,
    errors,
    stores,
    testing,
    upsert,
    views,
)
from pyflinklike.api import metrics
from pyflinklike.api.context import KeyedStateStore
from pyflinklike.testing import strategies

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "reference"

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>spark|not run: [^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A snippet, and where it stands."""

    page: Path
    line: int
    mark: str
    code: str

    def compiled(self):
        """The code object; its line numbers are the page's."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def blocks_of(page):
    """The Python snippets of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page, text.count("\n", 0, found.start("code")) + 1, found["mark"] or "", found["code"]
        )
        for found in _BLOCK.finditer(text)
        if found["language"] == "python"
    ]


def run(blocks, **names):
    """Run snippets one after another in one namespace."""
    # No module has this name, so that cloudpickle takes the classes along by value.
    namespace = {"__name__": "snippets", **names}
    for block in blocks:
        exec(block.compiled(), namespace)


def pages_with(*marks):
    """The pages that have such snippets, as parameters of a test."""
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(block.mark in marks for block in blocks_of(page))
    ]


def anchors_of(page):
    """What a link into a page may name."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = [title.lower().replace("`", "") for title in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages_with(""))
def test_the_snippets_of_a_page_run(page):
    """Those that need nothing but the package."""
    run([block for block in blocks_of(page) if not block.mark])


@pytest.mark.parametrize("page", pages_with("spark"))
def test_the_snippets_of_a_page_run_on_spark(page, spark):
    """All snippets of a page that has some for Spark, in order."""
    run([block for block in blocks_of(page) if block.mark in ("", "spark")], spark=spark)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_compiles(page):
    """Also those that are not run."""
    for block in blocks_of(page):
        assert block.compiled() is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page):
    """A link inside the repository names a file that is there, and a heading that it has."""
    broken = []
    for target in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors_of(linked)):
            broken.append(target)

    assert [] == broken


def test_every_page_is_linked_from_the_index():
    """A page that the index does not name would not be found."""
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / t).resolve() for t in _LINK.findall(index.read_text("utf-8"))}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {index}

    assert set() == pages - linked


# The reference


def signature(function, name=None, *, bound=False):
    """A call as the reference writes it: names and defaults, no annotations."""
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return f"{name or function.__name__}{inspect.Signature(plain)}"


def members(cls):
    """What the reference must say of a class: its public methods, properties and members."""
    if issubclass(cls, Enum):
        yield from cls.__members__
        return
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, staticmethod):
            yield signature(member.__func__, name)
        elif inspect.isfunction(member):
            yield signature(member, name, bound=True)
        elif isinstance(member, property):
            yield name


def missing(page, expected):
    """What a page of the reference does not have, written as code."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return [each for each in expected if f"`{each}`" not in text]


def names_of(module):
    """The names a module exports, without importing it."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return next(
        ast.literal_eval(node.value) for node in assigned if node.targets[0].id == "__all__"
    )


# What the reference describes on a page of its own, or what its implementers use only.
_ELSEWHERE = {"StateTtlConfig", "Types", "TypeInformation"}
_INTERNAL = {"spec()", "state(table)"}


@pytest.mark.parametrize("name", sorted(set(pyflinklike.__all__) - _ELSEWHERE))
def test_the_reference_describes_every_public_name(name):
    """With its members and their signatures."""
    public = getattr(pyflinklike, name)
    expected = list(members(public)) if inspect.isclass(public) else [name]

    assert [] == missing("api.md", [each for each in expected if each not in _INTERNAL])


@pytest.mark.parametrize(
    "cls",
    [
        KeyedProcessFunction.Context,
        KeyedProcessFunction.OnTimerContext,
        KeyedStateStore,
        metrics.Counter,
        metrics.Meter,
        metrics.Distribution,
        testing.KeyedProcessHarness,
    ],
    ids=lambda cls: cls.__qualname__,
)
def test_the_reference_describes_what_public_names_lead_to(cls):
    """Contexts, metrics and the harness are described member by member."""
    assert [] == missing("api.md", members(cls))


@pytest.mark.parametrize(
    "cls",
    [
        pyflinklike.ValueStateDescriptor,
        pyflinklike.ListStateDescriptor,
        pyflinklike.MapStateDescriptor,
        pyflinklike.ReducingStateDescriptor,
        pyflinklike.AggregatingStateDescriptor,
        pyflinklike.HashMapStateBackend,
        pyflinklike.OutputTag,
        pyflinklike.Instant,
        testing.KeyedProcessHarness,
    ],
    ids=lambda cls: cls.__name__,
)
def test_the_reference_tells_how_to_make_a_public_class(cls):
    """Its constructor stands there with all arguments."""
    assert [] == missing("api.md", [signature(cls)])


def test_the_reference_names_what_the_packages_export():
    """Everything in `__all__` of the package and of its public subpackages."""
    exported = {
        *pyflinklike.__all__,
        *testing.__all__,
        *names_of("pyflinklike/spark/__init__.py"),
        "StateBackendConformance",
        "agreement_machine",
    }
    text = (REFERENCE / "api.md").read_text(encoding="utf-8")

    assert [] == [name for name in sorted(exported) if not re.search(rf"`{name}\b", text)]


def test_the_reference_describes_the_hypothesis_strategies():
    """With their signatures."""
    expected = [signature(getattr(strategies, name)) for name in strategies.__all__]

    assert [] == missing("api.md", expected)


def test_the_reference_describes_the_entry_to_spark():
    """With the signatures of `key_by`, of `process` and of what takes results apart."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    import pyflinklike.spark as host

    functions = [getattr(host, name) for name in host.__all__ if name != "KeyedStream"]
    expected = [*map(signature, functions), *members(host.KeyedStream)]

    assert [] == missing("api.md", expected)


@pytest.mark.parametrize("name", stores.__all__)
def test_the_reference_describes_the_stores(name):
    """Every public name, the members of classes, and how descriptors are made."""
    public = getattr(stores, name)
    expected = []
    if inspect.isfunction(public) or name.endswith("Descriptor"):
        expected = [signature(public)]
    elif inspect.isclass(public) and issubclass(public, (stores.StateStore, stores.Cursor)):
        bases = [each for each in public.__mro__ if each.__name__ == "SegmentedStore"]
        expected = [each for cls in [public, *bases] for each in members(cls)]
    runtime = {"init(context)", "abandon()", "drop_expired()"}

    assert [] == missing("stores.md", [each for each in expected if each not in runtime])
    assert re.search(rf"`{name}\b", (REFERENCE / "stores.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", views.__all__)
def test_the_reference_describes_the_views(name):
    """Every public name, its members, and how what users make is made."""
    public = getattr(views, name)
    made = [signature(public)] if name in ("MaterializedView", "ServingView") else []

    assert [] == missing("views.md", [*members(public), *made])
    assert re.search(rf"`{name}\b", (REFERENCE / "views.md").read_text(encoding="utf-8"))


def test_the_reference_maps_all_of_kafka_streams():
    """Every numbered function and option of the documents that ask for the stores."""
    text = (REFERENCE / "stores.md").read_text(encoding="utf-8")
    numbers = [
        f"{part}{n:02}"
        for part, last in (("A", 14), ("B", 22), ("D", 6))
        for n in range(1, last + 1)
    ]

    assert numbers == re.findall(r"^\| ([ABD]\d\d) \|", text, re.MULTILINE)


@pytest.mark.parametrize("function", [cdc.CdcEvent, cdc.decode_debezium, cdc.to_debezium])
def test_the_reference_describes_the_events_of_debezium(function):
    """How they are decoded and encoded, and what they have."""
    fields = getattr(function, "_fields", ())

    assert [] == missing("debezium.md", [signature(function), *fields])


@pytest.mark.parametrize(
    "name",
    [
        "AutoSpillBackend",
        "Consolidating",
        "FinalizedValue",
        "GetStats",
        "InMemoryUpsertBackend",
        "MergeStats",
        "MergeValue",
        "ProvisionalValue",
        "PutStats",
        "PutValue",
        "RocksDBUpsertBackend",
        "SnapshotStats",
        "Tombstone",
        "UpsertFunction",
        "UpsertState",
        "UpsertValueAndSize",
        "ValueMetadata",
        "consolidating_merge_function",
    ],
)
def test_the_reference_describes_upserts(name):
    """How each is made or called; its fields, and the members of the three that do something."""
    public = getattr(upsert, name)
    expected = []
    if name.endswith("Stats"):
        expected = list(inspect.signature(public).parameters)
    elif name not in ("UpsertState", "RocksDBUpsertBackend"):
        expected = [signature(public)]
    if name in ("Consolidating", "UpsertFunction", "UpsertState"):
        expected += members(public)

    assert [] == missing("upsert.md", expected)
    assert re.search(rf"`{name}\b", (REFERENCE / "upsert.md").read_text(encoding="utf-8"))


def test_the_reference_maps_all_of_materializes_upsert():
    """Every numbered item of the document that asks for it."""
    text = (REFERENCE / "upsert.md").read_text(encoding="utf-8")

    assert [f"C{n:02}" for n in range(1, 22)] == re.findall(r"^\| (C\d\d) \|", text, re.MULTILINE)


def test_the_reference_describes_every_error():
    """One line each."""
    assert [] == missing("errors.md", errors.__all__)


def test_the_reference_describes_every_type():
    """Each of `Types`, by its call."""
    assert [] == missing("types.md", [f"Types.{each}" for each in members(Types)])


def test_the_reference_describes_the_ttl():
    """Enums, getters, builder methods and cleanup strategies."""
    cleanup = StateTtlConfig.CleanupStrategies
    classes = [
        StateTtlConfig,
        StateTtlConfig.UpdateType,
        StateTtlConfig.StateVisibility,
        StateTtlConfig.TtlTimeCharacteristic,
        StateTtlConfig.Builder,
        cleanup,
        cleanup.Strategies,
        cleanup.IncrementalCleanupStrategy,
        cleanup.RocksdbCompactFilterCleanupStrategy,
    ]

    assert [] == [each for cls in classes for each in missing("ttl-config.md", members(cls))]
