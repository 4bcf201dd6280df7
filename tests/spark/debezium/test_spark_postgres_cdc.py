# SPDX-License-Identifier: Apache-2.0
"""The example over a real PostgreSQL: the view that its changes are upserted to is its table."""

from __future__ import annotations

import json

import pytest
from example_support import example

from pyflinklike import Row


@pytest.fixture(scope="module")
def postgres():
    """The example; skips where there is no PostgreSQL."""
    module = example("postgres_cdc")
    if module.binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return module


@pytest.mark.thorough
def test_the_view_of_a_captured_table_is_the_table(spark, postgres, tmp_path):
    """Row by row, after each of two rounds of transactions."""
    told = list(postgres.run(spark, tmp_path, rounds=2))

    assert "snapshot: 40 records" == told[0]
    assert ["the view is the table"] * 2 == [line.split("; ")[1].split(",")[0] for line in told[1:]]
    values = [
        json.loads(value)
        for file in (tmp_path / "captured").iterdir()
        for line in file.read_text().splitlines()
        if (value := json.loads(line)["value"]) is not None
    ]
    assert {"r", "c", "u", "d"} == {value["op"] for value in values}
    unchanged = [
        v for v in values if v["after"] and v["after"]["body"] == "__debezium_unavailable_value"
    ]
    assert unchanged


def test_without_postgresql_the_example_says_so(postgres, tmp_path, monkeypatch):
    """It ends with an error, and does nothing."""
    monkeypatch.setenv("PATH", "")

    with pytest.raises(SystemExit, match="apt install postgresql"):
        postgres.main([str(tmp_path / "not made"), "1"])
    assert not (tmp_path / "not made").exists()


def test_a_view_that_is_not_the_table_is_told(postgres, tmp_path):
    """A row that is missing, one that differs, and one too many."""
    rows = {1: {"id": 1, "name": "a"}, 2: {"id": 2, "name": "b"}}
    with postgres.MaterializedView("items", key="id", path=tmp_path / "view.db") as view:
        changes = [
            {"key": n, "op": "insert", "value": Row(id=n, name=name), "diff": 1}
            for n, name in [(2, "x"), (3, "c")]
        ]
        view.apply(changes, 0)

        wrong = postgres.differences(view, rows)

    assert [
        "row 1: None instead of {'id': 1, 'name': 'a'}",
        "row 2: Row(id=2, name='x') instead of {'id': 2, 'name': 'b'}",
        "row 3 is not in the table",
    ] == wrong
