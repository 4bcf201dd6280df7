# SPDX-License-Identifier: Apache-2.0
"""Each alert fires on the query that has its sickness, and none on a healthy one.

The queries ran on Spark (`tests/support/observed_queries.py`), and are played here.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("prometheus_client", reason="the extra `prometheus`")

from dashboard_support import alerts
from played_queries import FAST, SICK, SLOW, firing, play, short
from promql import evaluate, names_of


@pytest.mark.parametrize("query", SICK)
def test_a_sick_query_has_its_alerts_and_no_others(query):
    """Each is recorded from Spark, with one sickness."""
    pace, expected = SICK[query]
    assert expected == short(firing(play(query, pace), pace))


@pytest.mark.parametrize("pace", [FAST, SLOW], ids=["fast", "slow"])
def test_a_healthy_query_has_no_alert(pace):
    """Neither over an hour nor over two days."""
    assert set() == firing(play("healthy", pace), pace)


def test_each_alert_has_a_sick_query():
    """None is without one that shows that it can fire."""
    told = {each for _, expected in SICK.values() for each in expected}
    assert told == short(each.name for each in alerts())


SERIES = {
    ("a", frozenset({("q", "x"), ("o", "1")})): [(0, 1.0), (60, 5.0), (120, 2.0)],
    ("a", frozenset({("q", "x"), ("o", "2")})): [(0, 1.0), (60, 1.0), (120, 1.0)],
    ("b", frozenset({("q", "x")})): [(0, 3.0), (60, 3.0), (120, 3.0)],
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("increase(a[2m])", [0, 6]),  # 4 up, and begun anew with 2
        ("sum by (q) (a)", [3]),
        ("a offset 1m", [1, 5]),
        ("a > 1", [2]),
        ("2 + 3 * a / 2", [3.5, 5]),
        ("a and on (q) b == 3", [1, 2]),
        ("a unless a > 1", [1]),
        ("(a > 1) or b", [2, 3]),
        ("a - max_over_time(a[2m])", [-3, 0]),
        ("changes(a[2m])", [0, 2]),
        ("avg_over_time(b[1m]) > min_over_time(b[1m])", []),
        ("a offset 10m", []),
    ],
)
def test_the_evaluator_follows_promql(expression, expected):
    """By hand: what the alerts build on."""
    assert expected == sorted(evaluate(expression, SERIES, 120).values())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (query, name) (rate(a_total{x=~"b_total|c"}[$__rate_interval]))', {"a_total"}),
        ("a / on (query) group_left (name) b offset 1h or c > bool 2", {"a", "b", "c"}),
        ("label_values(up, query)", {"up", "query"}),
        (
            'histogram_quantile(0.9, sum(rate(x_bucket[5m])) by (le)) unless y{a="}{"}',
            {"x_bucket", "y"},
        ),
    ],
)
def test_the_names_in_an_expression_are_found(expression, expected):
    """And neither labels nor functions nor words, but in a variable of Grafana, whose label is one."""
    assert expected == names_of(expression)
