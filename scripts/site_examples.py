# SPDX-License-Identifier: Apache-2.0
"""Puts `examples/` into the site: a hook of mkdocs (`mkdocs.yml`).

Each program, text and notebook becomes a page.  Links of the pages to `../examples/` lead there,
and so does a path such as `examples/sessions.py` in code.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_KINDS = (".py", ".md", ".ipynb")
_LINK = re.compile(r"\]\((?P<target>[^):#\s]+)(?P<anchor>#[^)\s]*)?\)")
_PATH = re.compile(r"(?<!\[)`(?P<path>[\w/]+\.(?:py|ipynb))`(?!\])")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for each example."""
    for path in sorted(_EXAMPLES.rglob("*")):
        if path.suffix in _KINDS and path.name != "__init__.py":
            name = path.relative_to(_EXAMPLES.parent).as_posix()
            file = File.generated(config, page_of(name), content=_text(path))
            if name != "examples/README.md":
                file.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(file)
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: object) -> str:
    """Let links to examples lead to their pages."""
    here = page.file.src_uri
    inside = here.startswith("examples/")
    folder = posixpath.dirname(here if inside else f"docs/{here}")

    def relative(path: str) -> str:
        return posixpath.relpath(path, posixpath.dirname(here) or ".")

    def linked(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found["target"]))
        uri = page_of(target) if target.startswith("examples/") else target.removeprefix("docs/")
        if not (inside or target.startswith("examples/")) or not files.get_file_from_path(uri):
            return found[0]
        return f"]({relative(uri)}{found['anchor'] or ''})"

    def linked_path(found: re.Match[str]) -> str:
        uri = page_of(posixpath.join(folder if inside else "", found["path"]))
        if not uri.startswith("examples/") or not files.get_file_from_path(uri):
            return found[0]
        return f"[{found[0]}]({relative(uri)})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    for n in range(0, len(parts), 2):
        parts[n] = _LINK.sub(linked, parts[n])
        parts[n] = _PATH.sub(linked_path, parts[n])
    return "".join(parts)


def page_of(name: str) -> str:
    """Return the page of an example, by its path in the repository."""
    path = Path(name)
    if path.name == "README.md":
        return path.with_name("index.md").as_posix()
    return f"{name.removesuffix(path.suffix)}.md"


def _text(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".py":
        return f"# {path.name}\n\n```python\n{text}```\n"
    return "\n\n".join(_cell(cell) for cell in json.loads(text)["cells"])


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    shown = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        lines = output.get("text") or output.get("data", {}).get("text/plain") or ()
        if lines:
            shown.append(f"``` {{.text .output}}\n{''.join(lines).rstrip()}\n```")
    return "\n\n".join(shown)
