# SPDX-License-Identifier: Apache-2.0
"""The dashboard of Grafana and the alerts of Prometheus in `examples/dashboard/`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from surroundings import REPOSITORY

ALERTS = REPOSITORY / "examples" / "dashboard" / "alerts.yml"
_DASHBOARD = REPOSITORY / "examples" / "dashboard" / "grafana.json"
_OF_LABEL = re.compile(r"label_values\((.+), \w+\)")
_OWN = "ALERTS"
"""The series that Prometheus itself makes of rules."""
_RULE = re.compile(r"^      - alert: (\w+)\n        expr: (.+)\n", re.MULTILINE)


class Alert(NamedTuple):
    """A rule of the file of alerts."""

    name: str
    expression: str


def alerts() -> list[Alert]:
    """The rules of the file, of which this takes the layout for granted: no reader of YAML is needed."""
    text = ALERTS.read_text("utf-8")
    found = [Alert(*each) for each in _RULE.findall(text)]
    assert text.count("alert:") == text.count("expr:") == len(found)
    return found


def dashboard() -> Any:
    """The dashboard."""
    return json.loads(_DASHBOARD.read_text("utf-8"))


def used_names() -> set[str]:
    """The names of all metrics in the expressions of both."""
    expressions = [*_expressions(dashboard()), *(each.expression for each in alerts())]
    return {name for each in expressions for name in names_of(each)}


def _expressions(found: Any) -> Iterator[str]:
    """All expressions of panels, variables and annotations, but of Prometheus' own series."""
    for panel in found["panels"]:
        yield from (each["expr"] for each in panel.get("targets", ()))
    for variable in found["templating"]["list"]:
        if variable["type"] == "query":
            yield _OF_LABEL.fullmatch(variable["query"]["query"])[1]  # type: ignore[index]
    for each in found["annotations"]["list"]:
        if not each["expr"].startswith(_OWN):
            yield each["expr"]


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<braces>\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})
  | \[(?P<range>[^\]]*)\]
  | (?P<duration>\d+(?:ms|[smhdwy]))
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<name>[A-Za-z_:][\w:]*)
  | (?P<sign>==|!=|>=|<=|[-+*/%^(),<>])
    )\s*""",
    re.VERBOSE,
)
_GROUPED = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "offset", "bool", *_GROUPED}


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            msg = f"no PromQL at {expression[at:]!r}"
            raise ValueError(msg)
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind]))
        at = found.end()
    return tokens


def names_of(expression: str) -> set[str]:
    """The names of the metrics in an expression."""
    tokens = [*_tokens(expression), ("end", "")]
    names, depth, grouped = set(), 0, False
    for (kind, text), (_, after) in pairwise(tokens):
        if grouped:
            depth += (text == "(") - (text == ")")
            grouped = depth > 0
        elif kind == "name" and text in _GROUPED and after == "(":
            grouped, depth = True, 0
        elif kind == "name" and text not in _WORDS and after not in ("(", *_GROUPED):
            names.add(text)
    return names
