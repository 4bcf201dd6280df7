# SPDX-License-Identifier: Apache-2.0
"""The commands that show (`list`, `show`, `get`, `timers`), compare (`check`, `diff`) and pass on.

A command asks and prints.  It asks a checkpoint and a savepoint the same questions.  `export` and
`report` write files, and `serve` answers over HTTP, which needs the extra `http`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import attrs
import click
import pyarrow as pa

from pyflinklike._checks import lacking
from pyflinklike.cli.answers import (
    Answers,
    EntryChoice,
    choose_state,
    is_savepoint,
    operator_of,
)
from pyflinklike.cli.cells import iso, length
from pyflinklike.cli.command import Look, command, limit_option, print_rows
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
)
from pyflinklike.state_processor._logs.checkpoint_logs import Checked, Finding
from pyflinklike.state_processor._logs.key_columns import column_key_of, time_of
from pyflinklike.state_processor._logs.state_infos import StateInfo
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of

if TYPE_CHECKING:
    import uvicorn

    from pyflinklike.queryable_state import QueryableState


@command("list")
def _list(look: Look) -> int:
    """List states and stores with their sizes in the log or savepoint; count keys and timers."""
    with look.answers() as answers:
        infos = answers.states(sizes=True)
        keys = answers.count_keys()
        timers = answers.count_timers()
        look.printer.note(answers.facts())
        for uid, count in keys.items():
            look.printer.note(_key_counts(uid, count, timers.get(uid, {})))
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
        look.printer.rows(rows, columns, batch_id=answers.batch_id)
    return 0


def _key_counts(uid: str, keys: int, timers: dict[str, int]) -> str:
    """Return the numbers of an operator's keys and timers in words."""
    counted = [f"{count:,} {domain.replace('_', '-')} timers" for domain, count in timers.items()]
    return f"{uid}: {', '.join([f'{keys:,} keys', *(counted or ['no timers'])])}"


_SHORT = ("operator", "name", "kind", "key", "entry", "value", "ttl", "entries", "bytes")


def _short(info: StateInfo) -> dict[str, Any]:
    """Return as many facts of a state as fit into a line."""
    return {
        "operator": info.uid or str(info.operator_id),
        "name": info.name,
        "kind": info.kind,
        "key": ", ".join(f"{name} {kind}" for name, kind in info.key_columns),
        "entry": info.user_key_type,
        "value": info.value_type,
        "ttl": None if info.ttl is None else f"{length(info.ttl['ms'])}, {info.ttl['time']}",
        "entries": info.entries,
        "bytes": info.bytes,
    }


@command("show")
@click.argument("name", metavar="STATE")
@limit_option
@click.option("--where", metavar="SQL", help="A condition of Spark's SQL; checkpoints only.")
@click.option(
    "--expired/--alive", "expired", default=None, help="Only entries past their TTL, or the others."
)
def _show(look: Look, name: str, limit: int, where: str | None, expired: bool | None) -> int:
    """Show entries of a STATE, in the order of their keys."""
    with look.answers() as answers:
        info = choose_state(answers, name)
        alive = None if expired is None else not expired
        choice = EntryChoice(limit=limit + 1 if limit else None, where=where, alive=alive)
        print_rows(look, answers, answers.rows(info, choice), limit)
    return 0


@command("get")
@click.argument("words", metavar="[STATE] KEY", nargs=-1, required=True)
@click.option("--all", "every", is_flag=True, help="Ask all states; give a KEY and no STATE.")
def _get(look: Look, words: tuple[str, ...], every: bool) -> int:
    """Show the entries of a STATE for a KEY.

    KEY is JSON (an array if the key has several columns), or a string without quotes.
    """
    if len(words) != (1 if every else 2):
        msg = "get takes STATE KEY, or KEY --all"
        raise click.UsageError(f"{msg}, got {' '.join(words)!r}")
    found = 0
    with look.answers() as answers:
        infos = (
            [i for i in answers.states() if i.key_columns]
            if every
            else [choose_state(answers, words[0])]
        )
        for info in infos:
            table = answers.rows(info, EntryChoice(key=_key(info, words[-1]), has_key=True))
            if not table.num_rows:
                continue
            found += table.num_rows
            if every:
                look.printer.note(f"{info.name}:")
            print_rows(look, answers, table, 0, **({"state": info.name} if every else {}))
        if not found:
            having = "no state has an" if every else f"state {words[0]!r} has no"
            look.printer.warn(f"{answers.where}: {having} entry of key {words[-1]}")
    return 0 if found else 1


def _key(info: StateInfo, text: str) -> Any:
    if not info.key_columns:
        msg = f"state {info.name!r} is kept for no single key, got key {text!r}"
        raise StateValueError(f"{msg}; look at it with `show`")
    return column_key_of(text, info.key_columns, info.key_type)


@command("timers")
@click.option("--domain", type=click.Choice(["event_time", "processing_time"]))
@click.option("--due-before", metavar="TIME", help="A time in ISO 8601 or in ms.")
@limit_option
def _timers(look: Look, domain: str | None, due_before: str | None, limit: int) -> int:
    """Count the registered timers, and show the next of them."""
    before = None if due_before is None else time_of(due_before)
    with look.answers() as answers:
        found = answers.timers(domain, before, limit + 1 if limit else None)
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
                print_rows(look, answers, each.rows, limit, operator=each.uid)
    return 0


_ENDS = ("first", "last")


_CHECKED = {
    "batches": "batches",
    "key_groups": "key groups",
    "segments": "segments",
    "files": "files",
    "entries": "entries",
}


@command("check")
@click.option("--all-batches", is_flag=True, help="Check every batch that Spark keeps.")
def _check(look: Look, all_batches: bool) -> int:
    """Verify all stored bytes, and list the damage."""
    found, checked = _find_damage(look, all_batches=all_batches)
    if found or look.is_json:
        look.printer.rows(map(attrs.asdict, found), ["part", "message"])
    counts = [f"{getattr(checked, name)} {what}" for name, what in _CHECKED.items()]
    looked_at = ", ".join(each for each in counts if not each.startswith("0 "))
    what = f"{len(found)} findings" if found else "no damage found"
    look.printer.note(f"{what}; checked {looked_at or 'what could be read'}")
    for each in checked.left_out:
        look.printer.note(f"not checked: {each}")
    return 1 if found else 0


def _find_damage(look: Look, *, all_batches: bool) -> tuple[list[Finding], Checked]:
    if not is_savepoint(look.path):
        return _check_checkpoint(look, all_batches=all_batches)
    from pyflinklike.state_processor import open_savepoint
    from pyflinklike.state_processor._savepoints.savepoint_directory import check_savepoint

    if all_batches or look.batch is not None or look.operator is not None:
        msg = "a savepoint is checked as a whole, got an option that chooses a part"
        raise DeclarationValueError(f"{msg}; leave --operator, --batch and --all-batches out")
    # A damaged manifest is a finding of this command; any other command fails.
    try:
        saved = open_savepoint(look.path)
    except CorruptStateError as error:
        return [Finding("manifest", str(error))], Checked()
    return check_savepoint(saved)


def _check_checkpoint(look: Look, *, all_batches: bool) -> tuple[list[Finding], Checked]:
    with look.session() as spark:
        from pyflinklike.state_processor._checkpoints.checkpoint_check import check_checkpoint

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
@limit_option
def _diff(look: Look, other: str | None, batches: str | None, limit: int) -> int:
    """Show the differences of two checkpoints, two savepoints, or two batches of a checkpoint.

    Two entries that differ only in their TTL stamp are the same. Timers that came or went are shown.
    """
    if (other is None) == (batches is None):
        msg = "diff takes PATH PATH_B, or PATH --batches A..B"
        raise click.UsageError(msg)
    first, second = (look.batch, look.batch) if batches is None else _batch_range(batches)
    with (
        attrs.evolve(look, batch=first).answers() as before,
        attrs.evolve(look, path=other or look.path, batch=second).answers() as after,
    ):
        return _print_differences(look, before, after, limit)


def _batch_range(batches: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.\.(\d+)", batches)
    if found is None:
        msg = f"--batches takes the numbers of two batches, got {batches!r}; write 3..7"
        raise click.UsageError(msg)
    return int(found[1]), int(found[2])


def _print_differences(look: Look, before: Answers, after: Answers, limit: int) -> int:
    found = list(_state_differences(before, after, limit or None))
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
            look.printer.warn_of_more(limit, f"state {each.state!r} has")
    return 1 if found else 0


@attrs.frozen
class StateDifference:
    """The differences in a state, or in the timers of an operator.

    Args:
        operator: The uid of the operator.
        state: The name of the state; "timers" for timers.
        counts: The number of different entries, by change.
        rows: The first different entries.
    """

    operator: str
    state: str
    counts: dict[str, int]
    rows: pa.Table


def _state_differences(
    before: Answers, after: Answers, limit: int | None
) -> Iterator[StateDifference]:
    """Yield the states that differ, then the operators whose timers differ.

    Args:
        before: A checkpoint or a savepoint.
        after: Another of the same kind.
        limit: The most rows to return for each state; None returns all.

    Raises:
        DeclarationValueError: One is a checkpoint and one a savepoint.
        IncompatibleStateError: A state has different types in the two.
    """
    if type(before) is not type(after):
        msg = (
            f"diff compares two checkpoints or two savepoints, got {before.where} and {after.where}"
        )
        raise DeclarationValueError(f"{msg}; make a savepoint of the checkpoint with `export`")
    first, second = _by_name(before), _by_name(after)
    for operator, name in sorted(first.keys() | second.keys()):
        was, now = first.get((operator, name)), second.get((operator, name))
        if was is not None and now is not None:
            _check_same(was, now)
        info = was or now
        assert info is not None
        one = None if was is None else before.entries(was)
        other = None if now is None else after.entries(now)
        keys = [column for column, _ in info.key_columns]
        counts, rows = before.compare(one, other, keys, limit)
        if counts:
            yield StateDifference(info.uid, name, counts, rows)
    yield from _timer_differences(before, after, limit)


def _timer_differences(
    before: Answers, after: Answers, limit: int | None
) -> Iterator[StateDifference]:
    first, second = _by_operator(before), _by_operator(after)
    for operator in sorted(first.keys() | second.keys()):
        was, now = first.get(operator), second.get(operator)
        one, keys = before.timer_entries(was)
        other, others = after.timer_entries(now)
        counts, rows = before.compare(one, other, keys or others, limit)
        if counts:
            yield StateDifference(now or was or "", "timers", counts, rows)


def _by_operator(answers: Answers) -> dict[str, str]:
    """Return the uids by uid, or by "" if there is one operator: it may have another uid."""
    uids = [each.identity.name for each in answers.records()]
    return {"": uids[0]} if len(uids) == 1 else {uid: uid for uid in uids}


def _by_name(answers: Answers) -> dict[tuple[str, str], StateInfo]:
    infos = answers.states()
    one = len({info.operator_id for info in infos}) == 1  # a single operator may have another uid
    return {("" if one else info.uid, info.name): info for info in infos}


def _check_same(was: StateInfo, now: StateInfo) -> None:
    for field in ("kind", "key_columns", "user_key_type", "value_type", "namespace_type"):
        one, other = getattr(was, field), getattr(now, field)
        if one != other:
            msg = f"state {was.name!r}: diff needs the same {field} in both, got {one} and {other}"
            raise IncompatibleStateError(f"{msg}; look at each with `show`")


@command("export")
@click.argument("out")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["savepoint", "parquet", "csv", "jsonl"]),
    default="savepoint",
    show_default=True,
    help="A savepoint can start a query; the other formats are the same folders of files only.",
)
def _export(look: Look, out: str, kind: str) -> int:
    """Write all states and timers to the directory OUT, which must not exist."""
    if savepoint_location_of(out).exists():
        msg = f"OUT must not exist, got {out!r}; give another path"
        raise DeclarationValueError(msg)
    with look.answers() as answers:
        answers.export(out, kind)
    look.printer.note(f"written to {out}")
    return 0


@command("report")
@click.argument("out", metavar="OUT.html")
def _report(look: Look, out: str) -> int:
    """Write a page about a checkpoint: sizes, skew, growth, the largest keys, expiry and timers.

    The page is one file of about 1 MB, and loads no other file.
    """
    if is_savepoint(look.path):
        msg = f"report draws the log of a checkpoint, got savepoint {look.path!r} without a log"
        raise DeclarationValueError(f"{msg}; look at it with `list` and `timers`")
    if look.is_json:
        msg = "report writes a page, got --json; leave it out"
        raise DeclarationValueError(msg)
    with look.session() as spark:
        from pyflinklike.report import checkpoint_report

        which = operator_of(look.operator)
        checkpoint_report(spark, look.path, out, batch_id=look.batch, operator=which)
    look.printer.note(f"written to {out}")
    return 0


# Over HTTP


_HOST = "127.0.0.1"
# Another name in the header `Host` may come from a web page whose name now leads here (DNS rebinding).
_NAMES = ("localhost", _HOST, "[::1]")
_VARIABLE = "PYFLINKLIKE_SERVE_TOKEN"


@command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="0 takes any free one.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    help="Also answer requests to this name, besides localhost, 127.0.0.1 and [::1].",
)
@click.option(
    "--token-file",
    type=click.File(encoding="ascii", errors="replace"),
    help=f"A file with a token that requests must give; or set {_VARIABLE}.",
)
def _serve(look: Look, port: int, names: tuple[str, ...], token_file: TextIO | None) -> int:
    """Answer over HTTP on 127.0.0.1 until it is interrupted; it only reads.

    While the query of a checkpoint runs, the answers follow it. If a token is given, requests must
    have the header "Authorization: Bearer TOKEN".
    """
    from pyflinklike.queryable_state.http import app

    if look.batch is not None:
        msg = f"serve follows the last batch, got --batch {look.batch}; leave it out"
        raise DeclarationValueError(msg)
    token = os.environ.get(_VARIABLE) if token_file is None else token_file.read().strip()
    with _replica(look) as state, _listen(port) as listening:
        served = app(state, hosts=(*_NAMES, *names), token=token)
        address = f"http://{_HOST}:{listening.getsockname()[1]}/states"
        look.printer.rows([{"address": address}], ["address"])
        try:
            _server(served).run([listening])
        except KeyboardInterrupt:
            look.printer.note("interrupted")
    return 0


@contextmanager
def _replica(look: Look) -> Iterator[QueryableState]:
    from pyflinklike.queryable_state import QueryableState

    if is_savepoint(look.path):
        with QueryableState.open_savepoint(
            look.path, operator=look.operator, allow_scan=True
        ) as state:
            yield state
        return
    with look.session() as spark:
        operator = operator_of(look.operator)
        chosen = 0 if operator is None else operator
        with QueryableState.open(spark, look.path, operator=chosen, allow_scan=True) as state:
            yield state


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port), backlog=128)
    except OSError as error:
        msg = f"--port must be free on {_HOST}, got {port} ({error})"
        raise DeclarationValueError(f"{msg}; give another, or 0 for any") from error


def _server(application: Any) -> uvicorn.Server:
    try:
        import uvicorn
    except ImportError as error:
        raise lacking("pyflinklike state serve", "http", error) from error
    # A request may wait for a batch for minutes; an interrupted command cuts it off after a second.
    return uvicorn.Server(
        uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    )
