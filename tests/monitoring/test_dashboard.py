# SPDX-License-Identifier: Apache-2.0
"""The dashboard of Grafana and the page of metrics: they name what the catalogue has, and all of it.

That a scrape of a running query has every one of these names is shown by
`tests/monitoring/test_spark_observe.py`.
"""

from __future__ import annotations

import importlib.util
import re

import pytest
from dashboard_support import dashboard, names_of, used_names
from surroundings import REPOSITORY

pytest.importorskip("pyspark")

from pyflinklike.monitoring.catalogue import CATALOGUE

NAMES = {each.name for each in CATALOGUE}
_LEGEND = re.compile(r"\{\{(\w+)\}\}")


def test_every_metric_is_in_the_dashboard_or_in_an_alert():
    """And neither names another."""
    assert NAMES == used_names()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (query, name) (rate(a_total{x=~"b_total|c"}[$__rate_interval]))', {"a_total"}),
        ("a / on (query) group_left (name) b offset 1h or c > bool 2", {"a", "b", "c"}),
        ("label_values(up, query)", {"up", "query"}),
        ('histogram_quantile(0.9, sum(rate(x[5m])) by (le)) unless y{a="}{"}', {"x", "y"}),
    ],
)
def test_the_names_in_an_expression_are_found(expression, expected):
    """And neither labels nor functions nor words, but in a variable of Grafana, whose label is one."""
    assert expected == names_of(expression)


def test_the_panels_have_different_titles_and_places():
    """What is pasted twice would hide one of the two."""
    panels = dashboard()["panels"]
    titles = [each["title"] for each in panels]
    places = [tuple(sorted(each["gridPos"].items())) for each in panels]
    numbers = [each["id"] for each in panels]
    assert [len(panels)] * 2 == [len(set(places)), len(set(numbers))]
    assert sorted(set(titles)) == sorted(titles)


def test_labels_in_legends_and_matchers_are_labels_of_the_metrics():
    """`{{operator}}` of a metric that has no such label would show nothing."""
    labels = {each.name: set(each.labels) for each in CATALOGUE}
    unknown = [
        (target["expr"], legend)
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
        for legend in _LEGEND.findall(target["legendFormat"])
        if not any(
            legend in {*labels[name], "instance", "job"} for name in names_of(target["expr"])
        )
    ]
    assert [] == unknown


def test_the_page_of_metrics_is_made_of_the_catalogue():
    """`python scripts/metric_names.py` writes it anew."""
    spec = importlib.util.spec_from_file_location(
        "metric_names", REPOSITORY / "scripts" / "metric_names.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text("utf-8") == script.page()


def test_names_follow_prometheus():
    """Counters end with `_total`, nothing else does; a unit is the last word before that."""
    for each in CATALOGUE:
        assert each.name.endswith("_total") is (each.kind == "counter")
        assert each.name.removesuffix("_total").endswith(each.unit)
        assert each.labels[:1] in (("query",), ())
    assert len(NAMES) == len({each.instrument for each in CATALOGUE}) == len(CATALOGUE)
