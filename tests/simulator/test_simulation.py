# SPDX-License-Identifier: Apache-2.0
"""Whole queries in a simulated world: what holds whatever goes wrong, and what a planted bug does."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from simulated import __main__, simulation, state_store
from simulated.__main__ import main
from simulated.choices import Choices, shorten
from simulated.functions import Service
from simulated.programs import DrawnProgram, draw_program
from simulated.query import QueryFailedError
from simulated.simulation import Outcome, run, run_shortest

from pyflinklike._changelog import key_group_log, segment_chain, segments
from pyflinklike.backends.heap import dict_tables
from pyflinklike.errors import CorruptStateError


def draw_fold(choices: Choices) -> DrawnProgram:
    """Draw a program of one operator that folds."""
    drawn = (draw_program(choices.within(f"try {at}"), ["folds"]) for at in range(100))
    return next(each for each in drawn if len(each.operators) == 1)


def failures(outcomes: list[Outcome]) -> list[str]:
    """What went wrong, of what did."""
    return [f"{each.kind}: {each.what}" for each in outcomes if each.is_failure]


def test_drawn_programs_are_right_or_end_with_an_explained_error() -> None:
    """Faults change nothing that chains, windows, joins and stores give."""
    outcomes = [run(seed, draw_program, 10) for seed in range(5)]
    assert failures(outcomes) == []


@pytest.mark.parametrize("setting", ["is_beside", "is_group_state"])
def test_other_hosts_are_right_or_end_with_an_explained_error(setting: str) -> None:
    """Operators that share one of Spark's, and PySpark 3.5's `applyInPandasWithState`."""

    def draw(choices: Any) -> Any:
        drawn = (draw_program(choices.within(f"try {at}")) for at in range(200))
        return next(each for each in drawn if getattr(each.settings, setting))

    outcomes = [run(seed, draw, 8) for seed in range(4)]
    assert failures(outcomes) == []


def test_states_that_are_declared_on_use_are_right() -> None:
    """Whatever a worker does not know yet is in the log, and stays there."""
    outcomes = [run(seed, lambda each: draw_program(each, ["on use"]), 6) for seed in range(3)]
    assert failures(outcomes) == []


def test_a_state_on_use_that_a_snapshot_leaves_out_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the end of a run all states of the log are compared, declared by then or not."""

    def snapshot(self: Any, contents: Any, state: Any) -> Any:
        state.declared.clear()
        state.declarations.clear()
        return segment_chain.divide(self._sections(contents), state, b"", self.segment_bytes)

    monkeypatch.setattr(key_group_log.SegmentWriter, "snapshot", snapshot)
    outcome = run(0, lambda each: draw_program(each, ["on use"]), 10)
    assert "state" in failures([outcome])[0]


def test_what_is_logged_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change feed of the last micro-batch names what that has touched, and nothing else."""
    drain = dict_tables.SingleTable.drain

    def drain_and_remember(self: Any) -> Any:
        changes = drain(self)
        self._dirty.update(dict.fromkeys(changes.keys))
        return changes

    monkeypatch.setattr(dict_tables.SingleTable, "drain", drain_and_remember)
    conditions = simulation.Conditions(rates=(0.0,))
    with simulation.use_seed(0) as folder:
        drawn = simulation.Run(
            Choices(0), lambda each: draw_program(each, ["folds"]), 8, folder, conditions
        )
        outcome = drawn.outcome()
    assert "changes of" in failures([outcome])[0]


def test_a_bit_that_flips_and_nobody_tells_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run ends with some flips of its own."""
    monkeypatch.setattr(segments, "zlib", SimpleNamespace(crc32=lambda *_: 0))
    assert "a bit is another" in failures([run(seed, draw_fold, 5) for seed in range(3)])[0]


def test_one_seed_gives_one_history() -> None:
    """A run is a function of its seed, to the last line of its history."""
    histories = [run(3, draw_fold, 15) for _ in range(2)]
    assert histories[0] == histories[1]


def test_format_2_explains_no_error() -> None:
    """With unique ids no two attempts are mixed, so every run is equal."""
    outcomes = [run(seed, draw_fold, 15) for seed in range(20, 28)]
    kinds = Counter(each.kind for each in outcomes if each.history[0].startswith("format 2"))
    assert set(kinds) <= {"equal"}


def test_a_nonce_that_is_not_compared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator finds working state that is used whatever the head says."""

    def load(self: Any, storage: Any, head: Any, state: Any) -> Any:
        if head is None or state.nonce:
            return state
        return self.rebuilt(storage, head, state.index)

    monkeypatch.setattr(key_group_log.KeyGroupLog, "load", load)
    assert failures([run(seed, draw_fold, 15) for seed in range(8)]) != []


def test_the_command_line_prints_the_history_of_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with the outcome, and the exit code says whether it is a failure."""
    code = main(["--seed", "1", "--batches", "3"])
    printed = capsys.readouterr().out.splitlines()
    assert (code, printed[-1].strip()) == (0, "seed 1: equal")


def test_the_command_line_counts_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """It says how many programs ended how."""
    code = main(["--minutes", "0.03", "--batches", "3", "--programs", "folds"])
    printed = capsys.readouterr().out
    assert (code, "micro-batches" in printed, "equal" in printed) == (0, True, True)


def test_a_seed_with_minutes_is_the_first_of_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour that begins with a seed runs for an hour, not for one program."""
    seeds = []

    def note(seed: int, *_: Any) -> Outcome:
        seeds.append(seed)
        return run(1, draw_fold, 1)

    monkeypatch.setattr(__main__, "run", note)
    code = main(["--seed", "70", "--minutes", "0.01", "--batches", "1"])
    assert (code, seeds[:3]) == (0, [70, 71, 72])
    assert f"{len(seeds):,} programs" in capsys.readouterr().out


def test_a_failure_is_cut_to_a_short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions without which a run fails all the same are taken out of it."""

    def ended(self: Any) -> tuple[str, str]:
        self._live()
        failed = any("worker dies" in line for line in self._query.history)
        return ("raw error", "a worker died") if failed else ("equal", "")

    monkeypatch.setattr(simulation.Run, "_end", ended)
    seed, whole = next(
        (seed, each) for seed in range(100) if (each := run(seed, draw_program, 5)).is_failure
    )
    short = run_shortest(seed, draw_program, 5, whole)
    assert len(short.decisions) <= 8 < len(whole.decisions)


def test_decisions_depend_on_seed_and_name_alone() -> None:
    """A decision that is not made changes no other one."""
    one, other = Choices(5), Choices(5)
    one.integer("first", 0, 1 << 40)
    assert one.integer("second", 0, 1 << 40) == other.integer("second", 0, 1 << 40)


def test_a_decision_that_is_cut_is_the_lowest() -> None:
    """Nothing happens at a decision that is cut."""
    cut = Choices(5, ["a/happens", "a/number", "a/one"]).within("a")
    drawn = cut.happens("happens", 1.0), cut.integer("number", 3, 9), cut.one_of("one", "xyz")
    assert drawn == (False, 3, "x")


def test_a_run_is_cut_to_what_makes_it_fail() -> None:
    """Of many decisions those are left that are needed."""
    names = [str(each) for each in range(40)]

    def fails(cut: frozenset[str]) -> list[str] | None:
        left = [each for each in names if each not in cut]
        return left if {"7", "31"} <= set(left) else None

    assert set(names) - shorten(fails, names) == {"7", "31"}


@pytest.mark.parametrize(
    ("mixed", "kind"),
    [({(0, 1)}, "error of ours"), ({(0, 0), (1, 1)}, "raw error"), (set(), "raw error")],
)
def test_damage_is_explained_by_the_store_that_was_mixed_alone(
    monkeypatch: pytest.MonkeyPatch, mixed: set[tuple[int, int]], kind: str
) -> None:
    """That another operator or partition has versions of two attempts explains nothing."""

    def live(self: Any) -> None:
        self._stores.mixed = mixed
        failure = QueryFailedError.__new__(QueryFailedError)
        failure.error, failure.place = CorruptStateError("damaged"), (0, 1)
        raise failure

    monkeypatch.setattr(simulation.Run, "_live", live)
    assert run(1, draw_fold, 1).kind == kind


@pytest.mark.parametrize("whole", ["_damage_snapshot", "_damage_changelog"])
def test_a_damaged_file_ends_in_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, whole: str
) -> None:
    """A bit of a blob that flips is told of, or never read again: it makes no silent difference, in a changelog or in a snapshot."""
    monkeypatch.setattr(state_store, "_DAMAGE", (0.2 if whole == "_damage_snapshot" else 0.8,))
    monkeypatch.setattr(state_store.StateStores, whole, lambda _, file, __: file)
    outcomes = [run(seed, draw_fold, 10) for seed in range(40, 52)]
    assert failures(outcomes) == []
    assert "error of ours" in {each.kind for each in outcomes}


def test_an_error_that_no_damage_explains_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in which nothing was flipped has to be whole."""
    monkeypatch.setattr(state_store, "_DAMAGE", (0.2,))
    stored = state_store.StateStores._flip_bit

    def keep_silent(self: Any, blob: Any, store: Any) -> Any:
        damaged = stored(self, blob, store)
        self.damaged.clear()
        return damaged

    monkeypatch.setattr(state_store.StateStores, "_flip_bit", keep_silent)
    outcomes = [run(seed, draw_fold, 10) for seed in range(40, 52)]
    assert "raw error" in {each.kind for each in outcomes}


def test_a_query_of_what_is_available_ends_and_is_started_again() -> None:
    """It reads what was there at its start, and the rest in its next life."""
    outcomes = [run(seed, draw_fold, 10) for seed in range(60, 72)]
    lives = [line for each in outcomes for line in each.history if "available now" in line]
    assert failures(outcomes) == []
    assert len(lives) > 0


def test_a_savepoint_comes_in_parts() -> None:
    """A key group gets a snapshot for each of its states, which together have all its entries."""
    programs = (draw_program(Choices(seed), ["states"]) for seed in range(1_000))
    begun = (each.operators[0] for each in programs if each.settings.has_parts)
    divided = next(each for each in begun if len(each.initial()) > 3)
    whole = attrs.evolve(divided, has_parts=False).initial()
    assert {key for key, _ in divided.initial()} == {key for key, _ in whole}
    assert len(divided.initial()) > len(whole)


def test_a_function_asks_a_service_that_fails_in_the_simulation_alone() -> None:
    """After a run it does not fail any more."""
    outcome = run(3, draw_program, 5)
    assert (outcome.is_failure, Service.ask()) == (False, None)
