# SPDX-License-Identifier: Apache-2.0
"""The alerts by Prometheus itself: what `promtool` says of the same queries, played alike."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import groupby

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("prometheus_client", reason="the extra `prometheus`")

from dashboard_support import ALERTS, alerts
from played_queries import FAST, SICK, SLOW, play, short

QUERIES = {**SICK, "healthy": (FAST, set()), "healthy for days": (SLOW, set())}


@pytest.fixture(scope="module")
def promtool():
    """The program."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (apt install prometheus)")
    return found


def written(values):
    """Values as promtool reads them: `5x2` is 5 three times."""
    runs = [(value, len(list(same))) for value, same in groupby(values)]
    return " ".join(f"{value:.6f}x{length - 1}" for value, length in runs)


def series(samples, pace):
    """The series of a query for promtool."""
    for (name, labels), points in samples.items():
        where = ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels))
        missing = int(points[0][0] // pace.scrape)
        begin = [f"_x{missing - 1}"] if missing else []
        values = " ".join([*begin, written([value for _, value in points])])
        yield {"series": f"{name}{{{where}}}", "values": values}


def rules_test(query, times, *, expected):
    """A test of all rules at the times; alerts that must fire are told with what labels they have."""
    pace, _ = QUERIES[query]
    samples = play(query.partition(" ")[0], pace)
    return {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{pace.scrape}s",
        "tests": [
            {
                "interval": f"{pace.scrape}s",
                "input_series": list(series(samples, pace)),
                "alert_rule_test": [
                    {"eval_time": f"{at}s", "alertname": each.name, "exp_alerts": expected}
                    for each in alerts()
                    for at in times
                ],
            }
        ],
    }


def test_each_alert_has_a_sick_query():
    """None is without one that shows that it can fire."""
    told = {each for _, expected in SICK.values() for each in expected}
    assert told == short(each.name for each in alerts())


def test_the_rules_are_taken_by_prometheus(promtool):
    """The file as it is."""
    done = subprocess.run(
        [promtool, "check", "rules", ALERTS], check=False, capture_output=True, text=True
    )
    assert (0, True) == (done.returncode, f"{len(alerts())} rules found" in done.stdout)


@pytest.mark.parametrize("query", QUERIES)
def test_prometheus_fires_the_same_alerts(promtool, query, tmp_path):
    """Asked for none at any time, it names those that fire."""
    pace, expected = QUERIES[query]
    end = int(max(points[-1][0] for points in play(query.partition(" ")[0], pace).values()))
    # JSON is YAML, too.
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(rules_test(query, range(0, end, pace.scrape), expected=[])))
    done = subprocess.run(
        [promtool, "test", "rules", path], check=False, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    fired = short(each.name for each in alerts() if f"alertname: {each.name}" in said)
    assert expected == fired, said[:2_000]
