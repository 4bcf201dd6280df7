# SPDX-License-Identifier: Apache-2.0
"""What `setup.cfg` cannot say: the description on PyPI, and addresses, both made of its `url`.

Links of the README are relative, so that they hold in every checkout.  PyPI has no files beside the
description: there they become addresses below `url`, and plain text while there is none.  Of a
`<picture>` PyPI keeps the `<img>` alone, and while there is no `url` its text is what is shown.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

_ROOT = Path(__file__).resolve().parent
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
_SOURCE = re.compile(r'(?P<name>\b(?:src|srcset))="(?![a-z]+:)(?P<target>[^"]+)"')
_TEXT = re.compile(r'\balt="([^"]*)"')
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def home() -> str:
    """The address of the repository: `url` of `setup.cfg`, or nothing."""
    config = ConfigParser(interpolation=None)
    config.read(_ROOT / "setup.cfg", encoding="utf-8")
    return config.get("metadata", "url", fallback="").rstrip("/")


def project_urls(home: str) -> dict[str, str]:
    """What PyPI shows beside the description."""
    if not home:
        return {}
    return {
        "Documentation": f"{home}/blob/HEAD/docs/index.md",
        "Changes": f"{home}/blob/HEAD/CHANGELOG.md",
        "Source": home,
        "Issues": f"{home}/issues",
        "Security": f"{home}/blob/HEAD/SECURITY.md",
    }


def long_description(readme: str, home: str) -> str:
    """A README with the links into the repository made absolute, or plain where it has no home."""

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link["image"], link["text"], link["target"]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        if not home:
            return "" if image else text
        return f"{image}[{text}]({home}/{'raw' if image else 'blob'}/HEAD/{target})"

    def shown(picture: re.Match[str]) -> str:
        if not home:
            return "".join(_TEXT.findall(picture[0]))
        return _SOURCE.sub(rf'\g<name>="{home}/raw/HEAD/\g<target>"', picture[0])

    def prose(text: str) -> str:
        return _PICTURE.sub(shown, _LINK.sub(absolute, text))

    parts, end = [], 0
    for code in _CODE.finditer(readme):
        parts += [prose(readme[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, prose(readme[end:])])


if __name__ == "__main__":
    from setuptools import setup

    setup(
        long_description=long_description((_ROOT / "README.md").read_text("utf-8"), home()),
        project_urls=project_urls(home()),
    )
