# SPDX-License-Identifier: Apache-2.0
"""The commands that compare and copy: `check`, `diff` and `export`."""

from __future__ import annotations

import attrs
import click

from pyflinklike.cli.asking import Source
from pyflinklike.cli.differing import differing
from pyflinklike.cli.looking import Look, command, print_rows
from pyflinklike.cli.sources import check_savepoint_at
from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.savepoints import open_savepoint
from pyflinklike.savepoints.checking import check_savepoint
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.findings import Checked, Finding


@command("check")
def _check(look: Look) -> int:
    """Verify every file against the manifest, and tell all that is wrong."""
    found, checked = _checked(look)
    if found or look.is_json:
        look.printer.rows(map(attrs.asdict, found), ["part", "message"])
    what = f"{len(found)} findings" if found else "nothing found"
    look.printer.note(f"{what} in {checked.files} files, {checked.entries} entries")
    return 1 if found else 0


def _checked(look: Look) -> tuple[list[Finding], Checked]:
    if look.operator is not None:
        msg = f"a savepoint is checked as a whole, got --operator {look.operator}"
        raise DeclarationValueError(f"{msg}; leave it away")
    check_savepoint_at(look.path)
    try:
        saved = open_savepoint(look.path)
    except CorruptStateError as error:
        return [Finding("manifest", str(error))], Checked()
    return check_savepoint(saved)


@command("diff")
@click.argument("other", metavar="PATH_B")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="Rows; 0 for all."
)
def _diff(look: Look, other: str, limit: int) -> int:
    """What differs between two savepoints; stamps of a TTL do not count."""
    return _told(look, look.source(), attrs.evolve(look, path=other).source(), limit)


def _told(look: Look, before: Source, after: Source, limit: int) -> int:
    found = list(differing(before, after, limit or None))
    if not look.is_json:
        changes = ["insert", "update", "delete"]
        rows = [
            {"operator": d.operator, "state": d.state, **{c: d.counts.get(c, 0) for c in changes}}
            for d in found
        ]
        if rows:
            look.printer.rows(rows, ["operator", "state", *changes])
        else:
            look.printer.note("no state differs")
    for each in found:
        look.printer.note(f"\n{each.state}:")
        print_rows(look, after, each.rows, 0, operator=each.operator, state=each.state)
        if each.rows.num_rows < sum(each.counts.values()):
            look.printer.warn(
                f"state {each.state!r} has more than these {limit}; --limit 0 shows all"
            )
    return 1 if found else 0


@command("export")
@click.argument("out")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    show_default=True,
    help="Of the files.",
)
def _export(look: Look, out: str, kind: str) -> int:
    """Write all states and timers to the directory OUT, where nothing may be yet."""
    if place_of(out).exists():
        msg = f"OUT must be a path where nothing is, got {out!r}; give another"
        raise DeclarationValueError(msg)
    look.source().export(out, kind)
    look.printer.note(f"written to {out}")
    return 0
