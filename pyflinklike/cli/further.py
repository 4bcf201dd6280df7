# SPDX-License-Identifier: Apache-2.0
"""The commands that compare and copy: `check`, `diff`, `export` and `report`."""

from __future__ import annotations

import re

import attrs
import click

from pyflinklike.cli.asking import Source
from pyflinklike.cli.differing import differing
from pyflinklike.cli.looking import Look, command, print_rows
from pyflinklike.cli.sources import is_savepoint, operator_of
from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.replay.checking import Checked, Finding
from pyflinklike.savepoints.files import place_of

_CHECKED = {
    "batches": "batches",
    "key_groups": "key groups",
    "segments": "segments",
    "files": "files",
    "entries": "entries",
}


@command("check")
@click.option("--all-batches", is_flag=True, help="Every batch that is retained, not the last.")
def _check(look: Look, all_batches: bool) -> int:
    """Verify everything that is stored, and list all findings."""
    found, checked = _checked(look, all_batches=all_batches)
    if found or look.is_json:
        look.printer.rows(map(attrs.asdict, found), ["part", "message"])
    counts = [f"{getattr(checked, name)} {what}" for name, what in _CHECKED.items()]
    looked_at = ", ".join(each for each in counts if not each.startswith("0 "))
    what = f"{len(found)} findings" if found else "nothing found"
    look.printer.note(f"{what} in {looked_at or 'what could be read'}")
    for each in checked.left_out:
        look.printer.note(f"not checked: {each}")
    return 1 if found else 0


def _checked(look: Look, *, all_batches: bool) -> tuple[list[Finding], Checked]:
    if not is_savepoint(look.path):
        return _checked_checkpoint(look, all_batches=all_batches)
    from pyflinklike.savepoints import open_savepoint
    from pyflinklike.savepoints.checking import check_savepoint

    if all_batches or look.batch is not None or look.operator is not None:
        msg = "a savepoint is checked as a whole, got an option that chooses a part"
        raise DeclarationValueError(f"{msg}; leave --operator, --batch and --all-batches out")
    try:
        saved = open_savepoint(look.path)
    except CorruptStateError as error:
        return [Finding("manifest", str(error))], Checked()
    return check_savepoint(saved)


def _checked_checkpoint(look: Look, *, all_batches: bool) -> tuple[list[Finding], Checked]:
    from pyflinklike.cli.sessions import session

    with session(look.master, quiet=not look.traceback) as spark:
        from pyflinklike.spark.checking import check_checkpoint

        return check_checkpoint(
            spark,
            look.path,
            batch_id=look.batch,
            operator=operator_of(look.operator),
            all_batches=all_batches,
        )


@command("diff")
@click.argument("other", metavar="[PATH_B]", required=False)
@click.option("--batches", metavar="A..B", help="Two batches of one checkpoint.")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="Rows; 0 for all."
)
def _diff(look: Look, other: str | None, batches: str | None, limit: int) -> int:
    """Show the differences of two checkpoints, two savepoints, or two batches of a checkpoint.

    Stamps of a TTL do not count; timers are shown that came or went.
    """
    if (other is None) == (batches is None):
        msg = "diff takes PATH PATH_B, or PATH --batches A..B"
        raise click.UsageError(msg)
    first, second = (look.batch, look.batch) if batches is None else _two(batches)
    with (
        attrs.evolve(look, batch=first).source() as before,
        attrs.evolve(look, path=other or look.path, batch=second).source() as after,
    ):
        return _told(look, before, after, limit)


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


def _two(batches: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.\.(\d+)", batches)
    if found is None:
        msg = f"--batches takes the numbers of two batches, got {batches!r}; write 3..7"
        raise click.UsageError(msg)
    return int(found[1]), int(found[2])


@command("export")
@click.argument("out")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["savepoint", "parquet", "csv", "jsonl"]),
    default="savepoint",
    show_default=True,
    help="A savepoint to begin a query with, or the same folders of files alone.",
)
def _export(look: Look, out: str, kind: str) -> int:
    """Write all states and timers to the directory OUT, where nothing may be yet."""
    if place_of(out).exists():
        msg = f"OUT must be a path where nothing is, got {out!r}; give another"
        raise DeclarationValueError(msg)
    with look.source() as source:
        source.export(out, kind)
    look.printer.note(f"written to {out}")
    return 0


@command("report")
@click.argument("out", metavar="OUT.html")
def _report(look: Look, out: str) -> int:
    """Write a page about a checkpoint: sizes, skew, growth, the largest keys, expiry and timers.

    It is one file of about 1 MB, and fetches nothing.
    """
    if is_savepoint(look.path):
        msg = f"report draws the log of a checkpoint, got savepoint {look.path!r}, which has none"
        raise DeclarationValueError(f"{msg}; look at it with `list` and `timers`")
    if look.is_json:
        msg = "report writes a page, got --json; leave it out"
        raise DeclarationValueError(msg)
    from pyflinklike.cli.sessions import session

    with session(look.master, quiet=not look.traceback) as spark:
        from pyflinklike.report import checkpoint_report

        which = operator_of(look.operator)
        checkpoint_report(spark, look.path, out, batch_id=look.batch, operator=which)
    look.printer.note(f"written to {out}")
    return 0
