# SPDX-License-Identifier: Apache-2.0
"""The SQL that applies a staged batch; `Merge` runs it, and fills in the braces."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BATCH",
    "COUNTS",
    "FOLDED",
    "GROWTH",
    "KEYS",
    "LOG",
    "MIXED",
    "NEAR",
    "OF_CHANGES",
    "OF_PLAIN_ROWS",
    "OUTCOME",
    "PUT_ROWS",
    "STAGED",
]

# Room for 2**40 rows in a partition; the order of `tokens` is that of the partitions.
STAGED: Final = """SELECT (t.n << 40) + s._position AS _place, s.* FROM {staging} s
    JOIN unnest(%(tokens)s::bigint[]) WITH ORDINALITY t(token, n) ON s._token = t.token"""

COUNTS: Final = """SELECT _token, count(*) FROM {staging}
    WHERE _token = ANY(%(tokens)s::bigint[]) GROUP BY _token"""

OUTCOME: Final = """CREATE TEMP TABLE outcome (key bytea, first bigint, winner bigint, before bytea,
    after bytea, before_sum bigint, after_sum bigint) ON COMMIT DROP"""

KEYS: Final = """staged AS MATERIALIZED (
        SELECT _place AS place, _key AS key, _kind AS kind, _row AS row, _order AS "order",
            _checksum AS checksum
        FROM ({staged}) s),
    keys AS (SELECT key, min(place) AS first, bool_or(kind = {RETRACT}) AS retracts,
        bool_or(kind = {PLAIN}) AS plain, bool_or(kind <> {PLAIN}) AS changes
        FROM staged GROUP BY key)"""

OF_CHANGES: Final = """INSERT INTO pg_temp.outcome WITH {keys},
    decided AS (SELECT DISTINCT ON (key) key, place, row, checksum FROM staged
        WHERE kind IN ({PUT}, {REMOVE}) ORDER BY key, place DESC),
    result AS (SELECT k.key, k.first, k.retracts, d.place, r._row AS before,
            r._checksum AS before_sum, d.checksum AS after_sum,
            CASE WHEN d.key IS NULL THEN r._row ELSE d.row END AS after
        FROM keys k LEFT JOIN decided d ON d.key = k.key LEFT JOIN {rows} r ON r._key = k.key
        WHERE NOT k.plain),
    retracted AS (SELECT DISTINCT s.key FROM staged s JOIN result f ON f.key = s.key
        WHERE f.retracts AND s.kind = {RETRACT} AND s.row = f.after
            AND (f.place IS NULL OR s.place > f.place)),
    final AS (SELECT f.key, f.first, f.place, f.before, f.before_sum, f.after_sum,
            CASE WHEN t.key IS NULL THEN f.after END AS after
        FROM result f LEFT JOIN retracted t ON t.key = f.key)
    SELECT key, first, CASE WHEN after IS NOT NULL THEN place END, before, after, before_sum,
        CASE WHEN after IS NOT NULL THEN after_sum END
    FROM final WHERE after IS DISTINCT FROM before"""

OF_PLAIN_ROWS: Final = """INSERT INTO pg_temp.outcome WITH {keys},
    best AS (SELECT DISTINCT ON (key) * FROM staged WHERE kind = {PLAIN}
        ORDER BY key, "order" DESC, place)
    SELECT k.key, k.first, b.place, r._row, b.row, r._checksum, b.checksum
    FROM keys k JOIN best b ON b.key = k.key LEFT JOIN {rows} r ON r._key = k.key
    WHERE NOT k.changes AND b.row IS DISTINCT FROM r._row
        AND (r._key IS NULL OR r._order IS NULL OR b."order" > r._order)"""

MIXED: Final = """WITH {keys}
    SELECT s.key, s.place, s.kind, s.checksum, s.row, r._row, r._checksum
    FROM keys k JOIN staged s ON s.key = k.key LEFT JOIN {rows} r ON r._key = k.key
    WHERE k.plain AND k.changes ORDER BY s.key, s.place"""

GROWTH: Final = """SELECT count(*), count(after) - count(before),
    coalesce(sum(after_sum), 0) - coalesce(sum(before_sum), 0) FROM pg_temp.outcome"""

PUT_ROWS: Final = """INSERT INTO {rows} ({columns}) SELECT {of_staged}
    FROM pg_temp.outcome o JOIN ({staged}) s ON s._place = o.winner
    ON CONFLICT (_key) DO UPDATE SET {put}"""

LOG: Final = """INSERT INTO {changes} SELECT %(seq)s, row_number() OVER (ORDER BY first), key, before
    FROM pg_temp.outcome"""

# As numeric: the id before the least bigint, or after the greatest, would overflow.
NEAR: Final = """SELECT first, last FROM {seen} WHERE source = %(source)s
    AND (last = %(id)s::numeric - 1 OR first = %(id)s::numeric + 1)"""

BATCH: Final = """INSERT INTO {batches} VALUES (%(seq)s, %(source)s, %(batch_id)s, %(applied_at)s,
    %(watermark)s, %(size)s, %(rows_sum)s, %(changes)s, %(oldest)s)"""

FOLDED: Final = """INSERT INTO pg_temp.outcome
    VALUES (%(a)s, %(b)s, %(c)s, %(d)s, %(e)s, %(f)s, %(g)s)"""
