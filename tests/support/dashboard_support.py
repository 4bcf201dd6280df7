# SPDX-License-Identifier: Apache-2.0
"""The dashboard of Grafana and the alerts of Prometheus in `examples/dashboard/`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from promql import names_of, seconds_of
from surroundings import REPOSITORY

__all__ = ["ALERTS", "Alert", "alerts", "dashboard", "used_names"]

ALERTS = REPOSITORY / "examples" / "dashboard" / "alerts.yml"
_DASHBOARD = REPOSITORY / "examples" / "dashboard" / "grafana.json"
_OF_LABEL = re.compile(r"label_values\((.+), \w+\)")
_OWN = "ALERTS"
"""The series that Prometheus itself makes of rules."""
_RULE = re.compile(
    r"^      - alert: (\w+)\n        expr: (.+)\n(?:        for: (\w+)\n)?", re.MULTILINE
)


class Alert(NamedTuple):
    """A rule of the file of alerts; its patience is in seconds."""

    name: str
    expression: str
    patience: float


def alerts() -> list[Alert]:
    """The rules of the file, of which this takes the layout for granted: no reader of YAML is needed."""
    text = ALERTS.read_text("utf-8")
    found = [
        Alert(name, expression, seconds_of(wait or "0s"))
        for name, expression, wait in _RULE.findall(text)
    ]
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
