# SPDX-License-Identifier: Apache-2.0
"""Every decision of one simulated run, from one seed: drawn, recorded, replayed, shortened.

A decision has a name: the path of scopes it was made in, its label, and how many of that name came
before it.  Its value follows from the seed and the name alone.  So a decision that falls away
changes no other one, which is what makes a history short: `cut` takes decisions back to the value
at which nothing happens (the lowest, the first, False), and the rest of the history stays.

Only `random.Random.random` is used of Python's generators, which gives the same on every version.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

import attrs

__all__ = ["Choices", "Decision", "Stream", "shorten"]

T = TypeVar("T")


@attrs.frozen
class Decision:
    """A decision that was not the one at which nothing happens.

    Args:
        name: Path, label and number, as "batch 3/operator 0/task 1/fails#0".
        value: In words, for the history.
    """

    name: str
    value: str


class Stream:
    """Many small numbers that are one decision together, as the rows of a record batch.

    Args:
        seed: Of the run and the name of the decision.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # a simulation guards nothing

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def happens(self, share: float) -> bool:
        """Return whether something happens, of which a share does."""
        return self._random() < share

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self._random() * len(options))]

    def shuffle(self, items: Iterable[T]) -> list[T]:
        """Return the items in another order."""
        keyed = [(self._random(), at, each) for at, each in enumerate(items)]
        return [each for _, _, each in sorted(keyed, key=lambda one: one[:2])]


class _Record:
    """The part that all scopes of a run share."""

    def __init__(self, seed: int, cut: Iterable[str]) -> None:
        self.seed = str(seed).encode()
        self.cut = frozenset(cut)
        self.numbers: dict[str, int] = {}
        self.make: list[Decision] = []


class Choices:
    """Decides by seed and name.

    Args:
        seed: The seed from which every decision follows.
        cut: Names of decisions at which nothing happens, whatever the seed says.
    """

    def __init__(self, seed: int, cut: Iterable[str] = ()) -> None:
        self.seed = seed
        self._record = _Record(seed, cut)
        self._path = ""

    def within(self, scope: str) -> Choices:
        """Return the decisions of a part of the run, with names of their own."""
        inner = object.__new__(Choices)
        inner.seed, inner._record = self.seed, self._record
        inner._path = f"{self._path}{scope}/"
        return inner

    def happens(self, label: str, share: float) -> bool:
        """Decide whether something happens, of which a share does; cut, it does not."""
        name, value = self._next(label)
        happens = value < share and name not in self._record.cut
        if happens:
            self._note(name, "yes")
        return happens

    def integer(self, label: str, low: int, high: int) -> int:
        """Decide for a number from `low` to `high`, both included; cut, it is `low`."""
        name, value = self._next(label)
        number = low if name in self._record.cut else low + int(value * (high - low + 1))
        if number != low:
            self._note(name, str(number))
        return number

    def one_of(self, label: str, options: Sequence[T]) -> T:
        """Decide for one of the options; cut, it is the first."""
        name, value = self._next(label)
        at = 0 if name in self._record.cut else int(value * len(options))
        if at:
            # Never the address of an object: one seed gives one history.
            is_shown = isinstance(options[at], (str, int, float, tuple, type(None)))
            self._note(name, f"{options[at] if is_shown else at}")
        return options[at]

    def stream(self, label: str) -> Stream:
        """Return a stream of numbers that are one decision together; it cannot be cut."""
        _name, value = self._next(label)
        return Stream(int(value * (1 << 52)))

    def keep(self, label: str, count: int) -> list[int]:
        """Return which of some items are there: all, but for those that were cut."""
        names = [f"{self._path}{label} {at}" for at in range(count)]
        for name in names:
            if name not in self._record.cut:
                self._note(name, "there")
        return [at for at, name in enumerate(names) if name not in self._record.cut]

    def make(self) -> list[Decision]:
        """Return the decisions at which something happened, in order."""
        return list(self._record.make)

    def _next(self, label: str) -> tuple[str, float]:
        record, path = self._record, f"{self._path}{label}"
        number = record.numbers.get(path, 0)
        record.numbers[path] = number + 1
        name = f"{path}#{number}" if number else path
        digest = blake2b(name.encode(), digest_size=8, key=record.seed).digest()
        return name, (int.from_bytes(digest, "big") >> 11) / (1 << 53)

    def _note(self, name: str, value: str) -> None:
        self._record.make.append(Decision(name, value))


def shorten(
    fails: Callable[[frozenset[str]], Sequence[str] | None],
    names: Sequence[str],
    most_runs: int = 200,
) -> frozenset[str]:
    """Find decisions that can be cut from a run that fails, so that it fails all the same.

    Args:
        fails: Runs with some decisions cut; returns the names of the decisions that were made, or
            None if the run did not fail.
        names: Decisions of the whole run.
        most_runs: After so many runs the best so far is taken.

    Returns:
        Names of the decisions that are cut from the shortest run.
    """
    cut: frozenset[str] = frozenset()
    left = list(names)
    size = max(1, len(left) // 2)
    runs = 0
    while left and runs < most_runs:
        at, was_cut = 0, False
        while at < len(left) and runs < most_runs:
            tried = cut | frozenset(left[at : at + size])
            runs += 1
            made = fails(tried)
            if made is None:
                at += size
                continue
            # What was not decided any more needs no further try.
            cut, was_cut = tried, True
            left = [each for each in made if each not in cut]
        if size > 1:
            size = max(1, size // 2)
        elif not was_cut:
            break
    return cut
