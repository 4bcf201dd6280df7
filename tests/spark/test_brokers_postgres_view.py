# SPDX-License-Identifier: Apache-2.0
"""Drivers that feed a view in PostgreSQL are killed, again and again: the view is what the records say."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

DRIVER = Path(__file__).resolve().parents[1] / "support" / "postgres_view_driver.py"
REPOSITORY = DRIVER.parents[2]
FILES, ROWS, KILLS = 8, 200, 4


@pytest.fixture
def database(monkeypatch):
    """A server, which libpq's environment variables tell of."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    from postgres_support import Schemas, server_for_tests
    from psycopg.conninfo import conninfo_to_dict

    with server_for_tests() as server:
        parts = conninfo_to_dict(server.conninfo)
        parts["database"] = parts.pop("dbname")
        for name, value in parts.items():
            monkeypatch.setenv(f"PG{name.upper()}", value)
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield Schemas(server.conninfo)


def fill(directory, choice):
    """Files of upserts, and what they leave."""
    directory.mkdir()
    model, position = {}, 0
    for number in range(FILES):
        lines = []
        for _ in range(ROWS):
            position += 1
            key, is_gone = choice.randrange(2 * ROWS), choice.random() < 0.2
            price = f"{choice.randrange(10**6) / 100:.2f}"
            each = {"id": key, "at": position, "name": f"n{position}", "price": price}
            lines.append(json.dumps({**each, "gone": is_gone}))
            model.pop(key, None)
            if not is_gone:
                model[key] = (position, each["name"], price)
        file = directory / f"{number:04}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number,) * 2)
    return model


def live(directory, choice, *, is_killed):
    """One life of the driver, to its end or to a moment after it began one of its batches."""
    with (directory / "log").open("a") as log:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), str(directory)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        delay = choice.choice([0.01, 0.05, 0.1, 0.2, 0.4, 0.8])
        killing = threading.Timer(delay, os.killpg, (driver.pid, signal.SIGKILL))
        target, lines = choice.randrange(1, 3), []
        for line in driver.stdout:
            lines.append(line.strip())
            if is_killed and sum(each.startswith("begin") for each in lines) == target:
                target = -1
                killing.start()
        driver.stdout.close()
        driver.wait()
        killing.cancel()
    assert is_killed or lines[-1:] == ["end"], (directory / "log").read_text()[-3000:]


def test_a_view_whose_drivers_are_killed_is_what_the_records_say(database, tmp_path):
    """By the view and by SQL, with each batch applied once and nothing left behind."""
    choice = random.Random(3)
    model = fill(tmp_path / "feed", choice)
    for number in range(KILLS + 1):
        live(tmp_path, choice, is_killed=number < KILLS)

    from postgres_view_driver import view

    with view() as prices:
        rows = {row.id: (row.at, row.name, str(row.price)) for row in prices.query(allow_scan=True)}
        prices.verify()
    assert model == rows
    lines = database.run("SELECT id, at, name, price::text FROM prices")
    assert model == {key: tuple(rest) for key, *rest in lines}
    assert [(0, FILES - 1)] == database.run("SELECT first, last FROM prices__seen")
    assert [(FILES,)] == database.run("SELECT max(seq) FROM prices__batches")
    left = "SELECT relname FROM pg_class WHERE relname LIKE '%staging%'"
    assert [] == database.run(left)
