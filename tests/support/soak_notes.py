# SPDX-License-Identifier: Apache-2.0
"""The notes of a soak, and what they say: is anything lost, doubled or growing?

Notes are lines of JSON.  Parent and drivers append them, each in one write, so that a kill leaves
whole lines.  The verdict is made of notes alone: whoever has them can judge a soak that was killed.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np

from pyflinklike.report.page import size_in_words
from pyflinklike.report.query_pages import read_progress

Note = dict[str, Any]


class Notes:
    """Lines of JSON in a file, by several processes.

    Args:
        path: The file, which keeps the lines that it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, what: str, **facts: Any) -> None:
        """Append a line."""
        line = json.dumps({"what": what, "at": round(time.time(), 3), **facts}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self, *, after: int = 0) -> tuple[list[Note], int]:
        """The notes from a position in the file on, and the position behind them."""
        if not self.path.exists():
            return [], after
        with self.path.open("rb") as file:
            file.seek(after)
            whole = file.read().rpartition(b"\n")[0]
        found = []
        for line in whole.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # the machine went down in the middle of it
                continue
        return found, after + len(whole) + bool(whole)


# Growth: a slope with its standard error

_SURE = 3.0
"""Standard errors above 0 from which on a slope is one."""
_FEWEST, _BINS = 16, 240
_HOUR = 3_600


class Point(NamedTuple):
    """One measurement.

    Args:
        at: When, in seconds.
        value: What was measured.
        of: Of whom: a process has its own level, and others that come after it have theirs.
    """

    at: float
    value: float
    of: Any = None


@attrs.frozen
class Growth:
    """How something changes over time.

    Args:
        measure: What it is.
        level: Its median.
        slope: Its change in an hour.
        error: The standard error of the slope.
        rise: What the slope makes of the whole time that was judged.
        points: How many were judged.
        allowed: Up to which rise it does not count.
    """

    measure: str
    level: float
    slope: float
    error: float
    rise: float
    points: int
    allowed: float

    @property
    def outcome(self) -> str:
        """`grows`, `does not grow`, or `too short` where there were too few points to tell."""
        if self.points < _FEWEST:
            return "too short"
        is_sure = self.slope > _SURE * self.error
        return "grows" if is_sure and self.rise > self.allowed else "does not grow"


def growth_of(
    measure: str,
    points: Sequence[Point],
    *,
    settle: float = 0,
    share: float = 0.05,
    least: float = 0,
) -> Growth:
    """Fit one slope to all points after the first tenth of the time, and a level to each process.

    Neighbours are alike, so the error is that of Newey and West, which takes the covariance of
    points near each other into account: without it a slow wave would be a sure slope.

    Args:
        measure: What was measured.
        points: In the order of time.
        settle: So many seconds of each process are left out, in which it warms up.
        share: A rise up to this share of the level does not count,
        least: and none up to this number.
    """
    judged = _reduced(_settled(points, settle))
    nothing = Growth(measure, 0.0, 0.0, 0.0, 0.0, len(judged), least)
    if len(judged) < 3:
        return nothing
    at = np.array([point.at for point in judged])
    value = np.array([point.value for point in judged], dtype=float)
    names: dict[Any, int] = {}
    of = np.array([names.setdefault(point.of, len(names)) for point in judged])
    level, span = float(np.median(value)), float(at.max() - at.min())
    x, y = at - _means(at, of), value - _means(value, of)
    spread = float(x @ x)
    free = len(judged) - len(names) - 1
    if not spread or free < 1:
        return attrs.evolve(nothing, level=level, points=0)
    slope = float(x @ y) / spread
    scores = x * (y - slope * x)
    lag = max(1, len(judged) // 10)
    variance = float(scores @ scores)
    for step in range(1, lag + 1):
        same = of[step:] == of[:-step]
        variance += 2 * (1 - step / (lag + 1)) * float((scores[step:] * scores[:-step])[same].sum())
    error = float(np.sqrt(max(variance, 0.0) * len(judged) / free)) / spread
    allowed = max(share * abs(level), least)
    return Growth(measure, level, slope * _HOUR, error * _HOUR, slope * span, len(judged), allowed)


def _settled(points: Sequence[Point], settle: float) -> list[Point]:
    """Leave out the first tenth of the time, and the first seconds of each process."""
    if not points:
        return []
    first, last = points[0].at, points[-1].at
    begin = first + (last - first) / 10
    born: dict[Any, float] = {}
    for point in points:
        born.setdefault(point.of, point.at)
    return [point for point in points if point.at >= max(begin, born[point.of] + settle)]


def _reduced(points: list[Point]) -> list[Point]:
    """Take the median of what is close together, which a pause or a retry does not move."""
    if len(points) <= _BINS:
        return points
    first = points[0].at
    width = (points[-1].at - first) / _BINS or 1.0
    lots: dict[tuple[int, Any], list[Point]] = defaultdict(list)
    for point in points:
        lots[int((point.at - first) / width), point.of].append(point)
    reduced = [
        Point(
            float(np.mean([point.at for point in lot])),
            float(np.median([point.value for point in lot])),
            of,
        )
        for (_, of), lot in lots.items()
    ]
    # Neighbours in the list are neighbours in time, of each process.
    return sorted(reduced, key=lambda point: (str(point.of), point.at))


def _means(values: Any, of: Any) -> Any:
    sums = np.bincount(of, weights=values)
    return (sums / np.bincount(of))[of]


# What is measured, and how much of it is nothing

_MB = 1024 * 1024


class _Measure(NamedTuple):
    points: Callable[[list[Note]], Iterator[Point]]
    least: float
    settles: bool
    is_size: bool


def _sampled(*path: str, by_life: bool = False) -> Callable[[list[Note]], Iterator[Point]]:
    """What samples have at a path: a number, or one for each process."""

    def points(notes: list[Note]) -> Iterator[Point]:
        for note in notes:
            if note["what"] == "sample":
                found: Any = note
                for name in path:
                    found = found[name]
                if isinstance(found, dict):
                    yield from (Point(note["at"], n, (note["life"], of)) for of, n in found.items())
                elif found or not by_life:
                    yield Point(note["at"], found, note["life"] if by_life else None)

    return points


def _heap(notes: list[Note]) -> Iterator[Point]:
    return (
        Point(each["at"], each["bytes"], each["life"]) for each in notes if each["what"] == "heap"
    )


def _batches(notes: list[Note]) -> Iterator[Point]:
    return (Point(each["at"], each["ms"]) for each in notes if each["what"] == "progress")


MEASURES: dict[str, _Measure] = {
    "batch ms": _Measure(_batches, 50, False, False),
    "JVM live heap bytes": _Measure(_heap, 16 * _MB, True, True),
    "worker bytes": _Measure(_sampled("memory", "workers"), 8 * _MB, True, True),
    "worker files": _Measure(_sampled("files", "workers"), 5, True, False),
    "processes": _Measure(_sampled("processes"), 2, False, False),
    "checkpoint bytes": _Measure(_sampled("checkpoint", "bytes"), _MB, False, True),
    "checkpoint files": _Measure(_sampled("checkpoint", "files"), 20, False, False),
    **{
        name: _Measure(_sampled(*path, by_life=True), least, True, name.endswith("bytes"))
        for name, path, least in (
            ("driver bytes", ("memory", "driver"), 8 * _MB),
            ("JVM bytes", ("memory", "jvm"), 32 * _MB),
            ("driver files", ("files", "driver"), 5),
            ("JVM files", ("files", "jvm"), 20),
            ("local bytes", ("local", "bytes"), 4 * _MB),
        )
    },
}


# The verdict


@attrs.frozen
class Verdict:
    """What came of a soak.

    Args:
        batches: Micro-batches whose rows were compared with the model's.
        rows: Rows that were compared.
        lost: Rows of the model that did not come.
        doubled: Rows that came and are not the model's.
        faults: How often each kind of fault was made.
        savepoints: Savepoints that were what the model says.
        errors: What went wrong otherwise, in words.
        growths: What was measured.
    """

    batches: int
    rows: int
    lost: int
    doubled: int
    faults: dict[str, int]
    savepoints: int
    errors: list[str]
    growths: list[Growth]

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost, doubled, wrong or growing."""
        grown = [each for each in self.growths if each.outcome == "grows"]
        return bool(self.batches) and not (self.lost or self.doubled or self.errors or grown)

    def told(self) -> Iterator[str]:
        """The verdict in lines."""
        faults = ", ".join(f"{count} {what}" for what, count in sorted(self.faults.items()))
        yield f"{self.batches:,} micro-batches, {self.rows:,} rows compared; faults: {faults or 'none'}"
        yield f"lost {self.lost:,}, doubled {self.doubled:,}, savepoints right {self.savepoints}"
        yield from (f"error: {each}" for each in self.errors)
        yield f"{'':22} {'level':>14} {'an hour':>14} {'error':>12} {'rise':>12}"
        for each in self.growths:
            show = size_in_words if MEASURES[each.measure].is_size else lambda each: f"{each:,.1f}"
            numbers = [
                _signed(show, value) for value in (each.level, each.slope, each.error, each.rise)
            ]
            yield (
                f"{each.measure:22} {numbers[0]:>14} {numbers[1]:>14} {numbers[2]:>12} "
                f"{numbers[3]:>12}  {each.outcome}"
            )
        yield "GOOD" if self.is_good else "BAD"


def _signed(show: Callable[[Any], str], value: float) -> str:
    return ("-" if value < 0 else "") + show(abs(round(value)))


def notes_of(folder: Path) -> list[Note]:
    """All notes of a soak, those that Spark made of its micro-batches included; by time."""
    notes, _ = Notes(folder / "soak.jsonl").read()
    progress = folder / "progress.jsonl"
    for each in read_progress(progress) if progress.exists() else ():
        phases = each["durationMs"]
        if "addBatch" in phases:
            at = np.datetime64(each["timestamp"].rstrip("Z")).astype("datetime64[ms]").astype(int)
            ms = phases["triggerExecution"]
            notes.append({"what": "progress", "at": int(at) / 1_000, "ms": ms})
    return sorted(notes, key=lambda note: note["at"])


def verdict_of(notes: list[Note], *, settle: float = 60, share: float = 0.05) -> Verdict:
    """Judge a soak by its notes.

    Args:
        notes: By time.
        settle: The seconds in which a process warms up.
        share: A rise up to this share of the level does not count; of a soak of less than an hour
            proportionally more, since the first minutes are much of it.
    """
    lasted = notes[-1]["at"] - notes[0]["at"] if notes else 0.0
    share *= max(1.0, _HOUR / max(lasted, 60.0))
    checked = [note for note in notes if note["what"] == "checked"]
    growths = [
        growth_of(
            name,
            list(measure.points(notes)),
            settle=settle if measure.settles else 0,
            share=share,
            least=measure.least,
        )
        for name, measure in MEASURES.items()
    ]
    return Verdict(
        batches=len(checked),
        rows=sum(note["rows"] for note in checked),
        lost=sum(note["lost"] for note in checked),
        doubled=sum(note["doubled"] for note in checked),
        faults=dict(Counter(note["fault"] for note in notes if note["what"] == "fault")),
        savepoints=sum(note["what"] == "saved" for note in notes),
        errors=[note["text"] for note in notes if note["what"] == "error"],
        growths=growths,
    )
