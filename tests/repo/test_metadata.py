# SPDX-License-Identifier: Apache-2.0
"""`setup.py`: what PyPI shows of the README, and which addresses."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOME = "https://example.org/pyflinklike"
RELATIVE = re.compile(r"""\]\((?![a-z]+:|#)|\bsrc(?:set)?="(?![a-z]+:)""")
PICTURE = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="docs/dark.svg">
  <img alt="Bars of 1 and 2" src="docs/light.svg">
</picture>"""


@pytest.fixture(scope="module")
def setup_script():
    """`setup.py` as a module, which builds nothing."""
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a page](docs/a.md#b)", f"[a page]({HOME}/blob/HEAD/docs/a.md#b)"),
        ("![a picture](docs/a.svg)", f"![a picture]({HOME}/raw/HEAD/docs/a.svg)"),
        (
            "[two](a.md), [links](b.md)",
            f"[two]({HOME}/blob/HEAD/a.md), [links]({HOME}/blob/HEAD/b.md)",
        ),
        ("[elsewhere](https://a.org/b.md)", "[elsewhere](https://a.org/b.md)"),
        ("[here](#an-example)", "[here](#an-example)"),
    ],
)
def test_links_into_the_repository_become_absolute(setup_script, link, expected):
    """Others stay as they are."""
    assert f"See {expected}." == setup_script.long_description(f"See {link}.", HOME)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a page](docs/a.md)", "a page"),
        ("![a picture](docs/a.svg)", ""),
        ("[elsewhere](https://a.org)", "[elsewhere](https://a.org)"),
    ],
)
def test_without_a_home_they_become_plain_text(setup_script, link, expected):
    """A link that leads nowhere is worse than none."""
    assert f"See {expected}." == setup_script.long_description(f"See {link}.", "")


def test_without_a_home_a_picture_becomes_its_text(setup_script):
    """PyPI then says what the chart shows."""
    assert "Bars of 1 and 2" == setup_script.long_description(PICTURE, "")


@pytest.mark.parametrize("home", ["", HOME])
def test_no_link_of_the_readme_stays_relative(setup_script, home):
    """Whether it has a home or not."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert RELATIVE.search(readme)

    description = setup_script.long_description(readme, home)

    assert [] == RELATIVE.findall(description)
    assert readme.count("```") == description.count("```")


def test_every_address_is_below_the_home(setup_script):
    """There is one constant, and without it no address is made up."""
    assert {} == setup_script.project_urls("")
    assert {True} == {each.startswith(HOME) for each in setup_script.project_urls(HOME).values()}
