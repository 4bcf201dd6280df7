# SPDX-License-Identifier: Apache-2.0
"""Every name of PyFlink 2.3 can be imported here, and what cannot be used says why.

`scripts/pyflink_names.py` compares: PyFlink's names are data, so no wheel is needed.
"""

from __future__ import annotations

import ast
import importlib.util
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pyflinklike.errors import RefusedNameError
from pyflinklike.pyflink import _names as pyflink_names
from pyflinklike.pyflink._names import names_of
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.run import install, uninstall

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names():
    """The script as a module."""
    path = ROOT / "scripts" / "pyflink_names.py"
    spec = importlib.util.spec_from_file_location("pyflink_names", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # named tuples look for their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(names):
    """What became of each name."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (`kafka`)")
    return list(names.compare())


def test_no_name_and_no_method_of_pyflink_is_missing(names, found):
    """Parameters have PyFlink's names and order; ours may follow them."""
    assert [] == [each for each in found if each.verdict == names.MISSING]
    assert len(found) > 2_000


def test_what_is_not_equal_says_why(names, found):
    """The reason and the remedy, in words."""
    assert [] == [each for each in found if (each.verdict == names.EQUAL) != (each.why == "")]


def test_the_page_is_what_the_code_says(names, found):
    """`python scripts/pyflink_names.py --page` writes it."""
    assert names.page_of(found) == names.PAGE.read_text(encoding="utf-8")


def test_each_refused_name_can_be_imported_and_raises_when_it_is_called(names, found):
    """From every place where PyFlink has it."""
    install()
    try:
        for each in found:
            if each.verdict == names.REFUSED and "." not in each.name:
                refused = getattr(import_module(f"pyflink.{each.module}"), each.name)
                with pytest.raises(RefusedNameError, match=each.name):
                    refused()
    finally:
        uninstall()


def test_private_names_are_refused_where_they_are_used():
    """Scripts import some of them, and `import *` brings none."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (`kafka`)")
    places = {
        (module, name) for module in names_of_all() for name in names_of(module) if name[0] == "_"
    }
    install()
    try:
        for module, name in places:
            refused = getattr(import_module(f"pyflink.{module}"), name)
            assert refused is pickle.loads(pickle.dumps(refused))  # it travels with a function
            with pytest.raises(RefusedNameError, match=f"{name}, which PyFlink has: ."):
                refused()
        shown = [name for module in names_of_all() for name in stars_of(module)]
    finally:
        uninstall()

    assert ("datastream.data_stream", "_get_one_input_stream_operator") in places
    assert [] == [name for name in shown if name[0] == "_"]


def names_of_all():
    """The modules that have names."""
    return list(pyflink_names._names_of_today())


def stars_of(module):
    """What `import *` brings."""
    return getattr(import_module(f"pyflink.{module}"), "__all__", [])


def test_a_private_name_of_a_stream_is_refused():
    """And one that PyFlink does not have is none."""
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])

    for each in (stream, stream.key_by(str)):
        with pytest.raises(
            RefusedNameError, match=r"Stream\._align_output_type, .* inside PyFlink"
        ):
            each._align_output_type()
    with pytest.raises(AttributeError, match="has no attribute '_nonsense'"):
        stream._nonsense  # noqa: B018


def test_the_tables_speak_of_names_that_pyflink_has():
    """A name that PyFlink has dropped is dropped here, too; and each former name is somewhere."""
    here = set(pyflink_names._HERE) - {"version.__version__"}
    stale = [
        each for each in here if each.rpartition(".")[2] not in names_of(each.rpartition(".")[0])
    ]
    unknown = [
        place
        for place in pyflink_names._REFUSED
        if not names_of(place)
        and not pyflink_names.is_known(place)
        and place.rpartition(".")[2] not in names_of(place.rpartition(".")[0])
    ]

    assert ([], []) == (stale, unknown)


def test_jobs_of_the_collection_import_names_from_where_pyflink_has_them():
    """`scripts/pyflink_oracle.py` runs them on PyFlink itself."""
    ours = [
        f"{path.name}: {node.module}.{alias.name}"
        for path in sorted((ROOT / "tests/support/jobs").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pyflinklike.pyflink.")
        for alias in node.names
        if alias.name not in names_of(str(node.module).removeprefix("pyflinklike.pyflink."))
    ]

    assert [] == ours


def test_a_module_of_which_nothing_is_ours_has_no_file():
    """Else its file would be found, and its names would not."""
    files = {
        ".".join(path.relative_to(ROOT / "pyflinklike").with_suffix("").parts)
        for path in (ROOT / "pyflinklike").rglob("*.py")
    }
    whole = {
        place
        for place in pyflink_names._REFUSED
        if pyflink_names.is_known(place) and names_of(place)
    }

    assert set() == whole & files


def test_a_module_whose_names_are_elsewhere_can_be_imported():
    """At our path as at PyFlink's; it gives the same names, and has no file."""
    for module, home in pyflink_names._ELSEWHERE.items():
        made = import_module(f"pyflinklike.pyflink.{module}")
        there = vars(import_module(f"pyflinklike.pyflink.{home}"))
        ours = [name for name in made.__all__ if name in there]
        assert [there[name] for name in ours] == [getattr(made, name) for name in ours]
        assert ours, module
        assert not hasattr(made, "__file__")


@pytest.mark.parametrize(
    "line",
    [
        "from pyflinklike.pyflink.common.time import Duration",
        "from pyflinklike.pyflink.common.time import *",
        "import pyflinklike.pyflink.common.time; Duration = pyflinklike.pyflink.common.time.Duration",
        "import pyflinklike.pyflink.common.time as time; Duration = time.Duration",
        "from pyflinklike.pyflink.common import time; Duration = time.Duration",
    ],
)
def test_a_module_without_a_file_can_be_the_first_that_a_program_imports(line):
    """In each form of an import."""
    subprocess.run([sys.executable, "-c", f"{line}; Duration.of_seconds(1)"], check=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (lambda a, b=1, c=2: None, ["a", "b"], ""),
        (lambda *others: None, ["*paths"], ""),
        (lambda a, *others: None, ["a", "*paths"], ""),
        (lambda *args, **kwargs: None, ["a"], ""),
        (lambda b: None, ["a"], "takes b, PyFlink's a"),
        (lambda: None, ["a"], "takes nothing, PyFlink's a"),
        (lambda *paths: None, ["a", "*paths"], "takes *paths, PyFlink's a, *paths"),
        (lambda a: None, ["a", "b"], "takes a, PyFlink's a, b"),
    ],
)
def test_a_difference_of_parameters_is_told(names, ours, theirs, difference):
    """Further ones of ours are none, nor is the name of `*args`."""
    assert difference == names.difference_of(ours, theirs)
