# SPDX-License-Identifier: Apache-2.0
"""The commands that show: `list`, `show`, `get` and `timers`."""

from __future__ import annotations

from typing import Any

import attrs
import click

from pyflinklike.cli.asking import Asked
from pyflinklike.cli.looking import Look, command, print_rows
from pyflinklike.cli.shapes import iso
from pyflinklike.cli.sources import chosen
from pyflinklike.errors import StateValueError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replay.typed import column_key_of, time_of


@command("list")
def _list(look: Look) -> int:
    """List states and stores with their sizes in the log or savepoint; count keys and timers."""
    with look.source() as source:
        infos = source.states(sizes=True)
        keys = source.keys()
        timers = source.registered_counts()
        look.printer.note(source.facts())
        for uid, count in keys.items():
            look.printer.note(_counted(uid, count, timers.get(uid, {})))
        rows = [
            {
                **attrs.asdict(info, recurse=False),
                "keys": keys.get(info.uid),
                "timers": timers.get(info.uid, {}),
            }
            for info in infos
        ]
        columns = [*(each.name for each in attrs.fields(StateInfo)), "keys", "timers"]
        if not look.is_json:
            rows, columns = [_short(info) for info in infos], list(_SHORT)
        look.printer.rows(rows, columns, batch_id=source.batch_id)
    return 0


def _counted(uid: str, keys: int, timers: dict[str, int]) -> str:
    """Word the numbers of an operator's keys and timers."""
    told = [f"{number:,} {domain.replace('_', '-')} timers" for domain, number in timers.items()]
    return f"{uid}: {', '.join([f'{keys:,} keys', *(told or ['no timers'])])}"


_SHORT = ("operator", "name", "kind", "key", "entry", "value", "ttl", "entries", "bytes")


def _short(info: StateInfo) -> dict[str, Any]:
    """Return the facts of a state that fit a line."""
    return {
        "operator": info.uid or str(info.operator_id),
        "name": info.name,
        "kind": info.kind,
        "key": ", ".join(f"{name} {kind}" for name, kind in info.key_columns),
        "entry": info.user_key_type,
        "value": info.value_type,
        "ttl": None if info.ttl is None else f"{info.ttl['ms']} ms, {info.ttl['time']}",
        "entries": info.entries,
        "bytes": info.bytes,
    }


_limit = click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="Rows; 0 for all."
)


@command("show")
@click.argument("name", metavar="STATE")
@_limit
@click.option("--where", metavar="SQL", help="A condition of Spark's SQL; checkpoints only.")
@click.option(
    "--expired/--alive", "expired", default=None, help="Only what is past its TTL, or is not."
)
def _show(look: Look, name: str, limit: int, where: str | None, expired: bool | None) -> int:
    """Show entries of a STATE, in the order of their keys."""
    with look.source() as source:
        info = chosen(source, name)
        alive = None if expired is None else not expired
        asked = Asked(limit=limit + 1 if limit else None, where=where, alive=alive)
        print_rows(look, source, source.rows(info, asked), limit)
    return 0


@command("get")
@click.argument("words", metavar="[STATE] KEY", nargs=-1, required=True)
@click.option("--all", "every", is_flag=True, help="Of all states; no STATE is given then.")
def _get(look: Look, words: tuple[str, ...], every: bool) -> int:
    """Show what a STATE has of a KEY: JSON (an array for several columns), or a string as it is."""
    if len(words) != (1 if every else 2):
        msg = "get takes STATE KEY, or KEY --all"
        raise click.UsageError(f"{msg}, got {' '.join(words)!r}")
    found = 0
    with look.source() as source:
        infos = (
            [i for i in source.states() if i.key_columns] if every else [chosen(source, words[0])]
        )
        for info in infos:
            table = source.rows(info, Asked(key=_key(info, words[-1]), has_key=True))
            found += table.num_rows
            if every and (not table.num_rows):
                continue
            if every:
                look.printer.note(f"{info.name}:")
            print_rows(look, source, table, 0, **({"state": info.name} if every else {}))
    return 0 if found else 1


def _key(info: StateInfo, text: str) -> Any:
    if not info.key_columns:
        msg = f"state {info.name!r} is kept for no single key, got key {text!r}"
        raise StateValueError(f"{msg}; look at it with `show`")
    return column_key_of(text, info.key_columns, info.key_type)


@command("timers")
@click.option("--domain", type=click.Choice(["event_time", "processing_time"]))
@click.option("--due-before", metavar="TIME", help="ISO 8601, or in ms.")
@_limit
def _timers(look: Look, domain: str | None, due_before: str | None, limit: int) -> int:
    """Count the registered timers, and show the next of them."""
    before = None if due_before is None else time_of(due_before)
    with look.source() as source:
        found = source.timers(domain, before, limit + 1 if limit else None)
        if not look.is_json:
            rows = [
                {"operator": each.uid, **counts, **{at: iso(counts[at]) for at in _ENDS}}
                for each in found
                for counts in each.counts
            ]
            columns = ["operator", "domain", "timers", "due", *_ENDS]
            look.printer.rows(rows, columns)
        for each in found:
            if each.counts:
                look.printer.note(f"\nthe next of {each.uid}:")
                print_rows(look, source, each.rows, limit, operator=each.uid)
    return 0


_ENDS = ("first", "last")
