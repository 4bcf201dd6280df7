# SPDX-License-Identifier: Apache-2.0
"""The table `items`, and random transactions that change it.

`body` is stored outside the row.  If an update does not change it, the log does not have it.  If
the update also changes the key, a reader has a new key and no old row to take the body from.  So
`move` writes the body again, unless the table logs whole rows (REPLICA IDENTITY FULL).
"""

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

from postgres_server import Session

TABLE = """
    CREATE TABLE items (
        id bigint PRIMARY KEY,
        name text NOT NULL,
        price numeric(10, 2),
        in_stock boolean NOT NULL DEFAULT true,
        body text,
        changed timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    ALTER TABLE items ALTER COLUMN body SET STORAGE EXTERNAL
"""


def fill(session: Session, rows: int, *, full: bool = False) -> None:
    """Create the table with some rows.

    Args:
        session: A connection.
        rows: The number of rows.
        full: Whether a change logs the whole old row, or only its key.
    """
    session.run(TABLE)
    if full:
        session.run("ALTER TABLE items REPLICA IDENTITY FULL")
    session.run(
        f"INSERT INTO items SELECT n, 'item ' || n, n * 1.25, n % 3 > 0, repeat(md5(n::text), 200) "
        f"FROM generate_series(1, {rows}) n"
    )


def work(
    one: Session, other: Session, choice: random.Random, transactions: int, *, full: bool = False
) -> None:
    """Change the table with random transactions, and two that overlap."""
    for _ in range(transactions):
        one.run("BEGIN")
        for _ in range(choice.randint(1, 6)):
            one.run(statement(choice, full=full))
        one.run(choice.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
    # The first to begin is the last to commit; it also changes a row that the other inserted.
    one.run("BEGIN")
    one.run("INSERT INTO items (id, name) VALUES (500, 'from one') ON CONFLICT (id) DO NOTHING")
    other.run("BEGIN")
    other.run("DELETE FROM items WHERE id = 501")
    other.run("INSERT INTO items (id, name, body) VALUES (501, 'from other', repeat('o', 9000))")
    other.run("COMMIT")
    one.run("UPDATE items SET name = 'from one again' WHERE id IN (500, 501)")
    one.run("COMMIT")


def statement(choice: random.Random, *, full: bool = False) -> str:
    """Return a random statement; its row may not exist."""
    number, free = choice.randint(1, 60), choice.randint(61, 90)
    insert = (
        f"INSERT INTO items (id, name, price, body) VALUES ({number}, 'new', {number}.05, "
        f"repeat(md5('{choice.random()}'), 150)) ON CONFLICT (id) "
    )
    anew = "" if full else ", body = body || ''"
    move = (
        f"UPDATE items SET id = {free}{anew} WHERE id = {number} "
        f"AND NOT EXISTS (SELECT FROM items WHERE id = {free})"
    )
    touch = "changed = clock_timestamp()"
    return choice.choice(
        [
            f"{insert} DO NOTHING",
            f"{insert} DO UPDATE SET name = items.name || '!', {touch}",
            f"UPDATE items SET price = price * 1.1, {touch} WHERE id = {number}",
            f"UPDATE items SET price = NULL, in_stock = NOT in_stock WHERE id % 7 = {number % 7}",
            f"UPDATE items SET body = repeat('{choice.randrange(10)}', 7000) WHERE id = {number}",
            f"UPDATE items SET body = NULL WHERE id = {number}",
            f"DELETE FROM items WHERE id = {number}",
            f"DELETE FROM items WHERE id = {free}",
            move,
        ]
    )


def table(session: Session) -> dict[int, dict[str, Any]]:
    """Return the rows of the table by their key, with Python's types."""
    rows = {}
    time = """to_char(changed, 'YYYY-MM-DD"T"HH24:MI:SS.US')"""
    query = f"SELECT to_jsonb(items) || jsonb_build_object('changed', {time}) FROM items"
    for line in session.run(query):
        row = json.loads(line, parse_float=Decimal)
        price = None if row["price"] is None else Decimal(row["price"])
        changed = dt.datetime.fromisoformat(row["changed"])
        rows[row["id"]] = {**row, "price": price, "changed": changed}
    return rows
