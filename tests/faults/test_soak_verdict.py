# SPDX-License-Identifier: Apache-2.0
"""A soak without the hours and without Spark: its model, its notes, and how it judges them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from soak_notes import Notes, Point, growth_of, notes_of, verdict_of
from soak_program import START, Digest, Model, Traffic, Visits

from pyflinklike import Row, Time, Types
from pyflinklike.testing import HarnessChain, KeyedProcessHarness
from pyflinklike.windows import EventTimeSessionWindows, ProcessWindowFunction, window

HOUR = 3_600


# The model


class Bounded(ProcessWindowFunction):
    """The rows of a session as the query selects them."""

    def process(self, key, context, elements):
        (told,) = elements
        yield key, context.window().start, context.window().end, *told


def chained(traffic: Traffic) -> HarnessChain:
    """The two operators of the query."""
    gap = EventTimeSessionWindows.with_gap(Time.milliseconds(traffic.gap))
    first = KeyedProcessHarness(Visits(traffic), lambda row: row.key, key_type=Types.STRING())
    second = KeyedProcessHarness(
        window(gap).aggregate(Digest(), Bounded()), lambda row: row.key, key_type=Types.STRING()
    )
    return HarnessChain(first).then(second, element)


def element(output: tuple[Any, ...]) -> tuple[Row, int]:
    """A row of `Visits` for the sessions."""
    key, moment, digest = output
    # A record is given its time as a number, a timer makes a datetime of it.
    at = moment if isinstance(moment, int) else int(moment.timestamp() * 1_000)
    return Row(key=key, digest=digest), at


def played(traffic: Traffic, batches: int) -> list[list[Any]]:
    """What the operators give for each micro-batch."""
    rows, latest = [], 0
    with chained(traffic) as chain:
        for number in range(batches):
            told = chain.process_watermark(latest - traffic.records) if number else []
            for key, moment, amount in traffic.of(number):
                row = Row(key=f"k{key}", ts=moment, amount=amount)
                told += chain.process_element(row, moment)
                latest = max(latest, moment)
            rows.append(sorted(told))
    return rows


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_model_gives_what_the_operators_give(seed):
    """Micro-batch by micro-batch, over three lives of keys, with expiry, timers and sessions."""
    traffic = Traffic(keys=30, records=20, seed=seed)
    model = Model(traffic)

    assert played(traffic, 40) == [model.run() for _ in range(40)]


@pytest.mark.parametrize("plant", ["loss", "doubling"])
def test_a_planted_fault_shows_in_the_rows(plant):
    """One record of 800 is left out, or counted twice."""
    traffic = Traffic(keys=30, records=20, seed=1, plant=plant)
    model = Model(traffic)

    assert played(traffic, 40) != [model.run() for _ in range(40)]


def test_the_model_forgets_keys_that_went():
    """So that hours fit into memory."""
    traffic = Traffic(keys=50, records=25, seed=3)
    model = Model(traffic)
    sizes = []
    for _ in range(20):
        for _ in range(traffic.life):
            model.run()
        heaps = model._timers, model._ends
        sizes.append(sum(map(len, (model._counts, model._sums, model._sessions, *heaps))))

    assert max(sizes[10:]) < 1.2 * max(sizes[3:10])


def test_times_of_a_micro_batch_reach_into_the_one_before_and_are_all_different():
    """Records of a key would else have no order."""
    traffic = Traffic(keys=30, records=20, seed=1)
    times = [sorted(moment for _, moment, _ in traffic.of(number)) for number in range(2)]

    assert [
        [START - 20 + 2 * step for step in range(20)],
        [START + 2 * step for step in range(20)],
    ] == times


# Growth


def points(slope: float, *, noise: float = 1, of: int = 1, seed: int = 0) -> list[Point]:
    """Two hours of measurements, 100 and noise at the beginning of each process."""
    random = Random(seed)
    made = []
    for at in range(0, 2 * HOUR, 20):
        life = at * of // (2 * HOUR)
        age = at - life * 2 * HOUR / of
        made.append(Point(at, 100 + slope * age / HOUR + random.gauss(0, noise), life))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_noise_does_not_grow(seed):
    """Nor does what rises by less than is allowed."""
    still = growth_of("x", points(0, noise=10, seed=seed))
    hardly = growth_of("x", points(1, noise=0.1, seed=seed))

    assert ("does not grow", "does not grow") == (still.outcome, hardly.outcome)
    assert abs(hardly.slope - 1) < 3 * hardly.error


@pytest.mark.parametrize("seed", range(20))
def test_a_slope_in_noise_is_seen(seed):
    """As large as the noise, over the whole time."""
    grown = growth_of("x", points(5, noise=5, seed=seed))

    assert "grows" == grown.outcome
    assert abs(grown.slope - 5) < 4 * grown.error


def test_a_leak_is_seen_over_restarts():
    """Each process begins where the one before began, and grows by 30 in an hour."""
    grown = growth_of("x", points(30, of=8))

    assert "grows" == grown.outcome
    assert abs(grown.slope - 30) < 3 * grown.error


@pytest.mark.parametrize(
    ("of", "value"),
    [
        pytest.param(
            8, lambda point: point.value + 50 * point.of, id="another level after restarts"
        ),
        pytest.param(
            1, lambda point: point.value * min(1, point.at / 700), id="a beginning that fills"
        ),
        pytest.param(
            1, lambda point: point.value + point.at % 900 / 30, id="a wave, as compaction's"
        ),
    ],
)
def test_what_is_no_growth(of, value):
    """A process has its level, the first tenth is left out, and points near each other are alike."""
    made = [point._replace(value=value(point)) for point in points(0, of=of)]

    assert "does not grow" == growth_of("x", made).outcome


def test_few_points_are_too_few():
    """A soak of a minute does not say that nothing grows."""
    assert ["too short"] * 3 == [
        growth_of("x", some).outcome for some in ([], points(9)[:2], points(9)[:15])
    ]


# Notes and verdict


def sample(at: float, **more: Any) -> dict[str, Any]:
    """A measurement of a driver, its JVM and one worker."""
    each = {"driver": 100_000_000, "jvm": 900_000_000, "workers": {"17": 200_000_000}}
    made: dict[str, Any] = {
        "what": "sample",
        "at": at,
        "life": 1,
        "processes": 3,
        "memory": dict(each),
        "files": {"driver": 20, "jvm": 300, "workers": {"17": 30}},
        "checkpoint": {"bytes": 5_000_000, "files": 400},
        "local": {"bytes": 0, "files": 0},
    }
    for path, value in more.items():
        made[path] = {**made[path], **value}
    return made


def checked(batch: int, lost: int = 0, doubled: int = 0) -> dict[str, Any]:
    """A comparison of a micro-batch."""
    return {
        "what": "checked",
        "at": batch,
        "batch": batch,
        "rows": 5,
        "lost": lost,
        "doubled": doubled,
    }


STILL = [*map(checked, range(10)), *(sample(at) for at in range(0, HOUR + 10, 10))]


def test_a_soak_without_anything_wrong_is_good():
    """And tells how much was compared."""
    verdict = verdict_of(STILL)

    assert (True, 10, 50) == (verdict.is_good, verdict.batches, verdict.rows)
    assert "GOOD" == list(verdict.told())[-1]


@pytest.mark.parametrize(
    "notes",
    [
        [*STILL, checked(11, lost=1)],
        [*STILL, checked(11, doubled=1)],
        [*STILL, {"what": "error", "at": 5, "text": "the driver ended"}],
        [note for note in STILL if note["what"] == "sample"],
    ],
)
def test_one_wrong_note_is_enough(notes):
    """Lost, doubled, failed, or nothing compared."""
    assert not verdict_of(notes).is_good


@pytest.mark.parametrize(
    ("measure", "grown"),
    [
        ("driver bytes", lambda at: {"memory": {"driver": 100_000_000 + 10_000 * at}}),
        ("worker bytes", lambda at: {"memory": {"workers": {"17": 200_000_000 + 20_000 * at}}}),
        ("worker files", lambda at: {"files": {"workers": {"17": 30 + at // 60}}}),
        ("JVM files", lambda at: {"files": {"jvm": 300 + at // 60}}),
        ("checkpoint files", lambda at: {"checkpoint": {"files": 400 + at // 30}}),
        ("local bytes", lambda at: {"local": {"bytes": 9_000 * at}}),
    ],
)
def test_what_leaks_is_named(measure, grown):
    """And nothing else is."""
    notes = [sample(at, **grown(at)) for at in range(0, HOUR + 10, 10)]
    verdict = verdict_of([checked(1), *notes])

    assert [measure] == [each.measure for each in verdict.growths if each.outcome == "grows"]
    assert not verdict.is_good


def test_a_short_soak_allows_more():
    """In ten minutes a tenth more is a beginning, and double is a leak."""
    tenth, double = (
        [
            sample(at, memory={"driver": 100_000_000 * (1 + more * at / 600)})
            for at in range(0, 600, 5)
        ]
        for more in (0.1, 1)
    )

    assert (True, False) == tuple(
        verdict_of([checked(1), *notes]).is_good for notes in (tenth, double)
    )


def test_notes_outlive_a_line_that_was_cut_off(tmp_path):
    """What is written after it is read, and reading goes on behind what was read."""
    notes = Notes(tmp_path / "soak.jsonl")
    notes.note("one", fact=1)
    with notes.path.open("a") as file:
        file.write('{"what": "hal\n')
    first, position = notes.read()
    notes.note("two")
    with notes.path.open("a") as file:
        file.write('{"what": "thr')

    assert (["one"], ["two"]) == (
        [note["what"] for note in first],
        [note["what"] for note in notes.read(after=position)[0]],
    )


def test_the_time_of_micro_batches_is_read_from_the_progress_of_spark(tmp_path):
    """As all measurements it is told by time."""
    Notes(tmp_path / "soak.jsonl").path.write_text(
        "".join(json.dumps(each) + "\n" for each in STILL)
    )
    progress = {
        "batchId": 3,
        "runId": "r",
        "timestamp": "1970-01-01T00:00:07.500Z",
        "durationMs": {"triggerExecution": 700, "addBatch": 500},
    }
    (tmp_path / "progress.jsonl").write_text(json.dumps(progress) + "\n")

    assert {"what": "progress", "at": 7.5, "ms": 700} in notes_of(tmp_path)
