# SPDX-License-Identifier: Apache-2.0
"""What a function yields, gathered until its host takes it.

`yield value` is a main output, `yield tag, value` a side output.  A function may
as well return an iterable of outputs, or None for none.

What is yielded before the watermark passes on is kept apart from what is yielded after it, for
an operator that follows has to see the watermark in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import GeneratorType
from typing import Any

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.results import TimedResult, check_results
from pyflinklike.errors import OutputError
from pyflinklike.shown import shown
from pyflinklike.types.copies import as_given

__all__ = ["CHANGEABLE", "Outputs", "TimedOutputs"]

CHANGEABLE = frozenset({list, dict})
"""Classes of rows that a function may fill anew and give again."""


def _held(output: Any) -> Any:
    """An output as it is kept until it is taken: a row as it is now, with the values it has now."""
    return output.copy() if output.__class__ in CHANGEABLE else output


@attrs.define
class Outputs:
    """Outputs in the order they were yielded.

    Args:
        main: The main outputs.
        keys: The (frozen) key each of them was yielded under.
        side: The same two lists, keys first, of each side output, by tag id.
    """

    main: list[Any] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    side: dict[str, tuple[list[Any], list[Any]]] = attrs.field(factory=dict)
    _before: Outputs | None = attrs.field(default=None, init=False, eq=False, repr=False)

    def take(self) -> Outputs:
        """What was gathered so far; there is nothing here afterwards."""
        before, after = self.take_apart()
        if not before:
            return after
        for tag_id, (keys, values) in after.side.items():
            former_keys, former_values = before.side.setdefault(tag_id, ([], []))
            former_keys += keys
            former_values += values
        return self._made(before.main + after.main, before.keys + after.keys, before.side)

    def watermark_passes(self) -> None:
        """What was gathered so far came before the watermark, what will be comes after it."""
        if self.main or self.side:
            self._before = self.take()

    def take_apart(self) -> tuple[Outputs, Outputs]:
        """What was gathered before the watermark passed and after it; nothing is left here."""
        before, after = self._before, self._made(self.main, self.keys, self.side)
        self._before = None
        self.main, self.keys, self.side = [], [], {}
        return before or self._made(), after

    def _made(self, *parts: Any) -> Outputs:
        """Outputs that count what they hold as these do."""
        return type(self)(*parts)

    def move_to(self, main: list[Any], side: dict[str, list[Any]]) -> list[Any]:
        """Add what was gathered to lists that the host keeps; which main outputs it was.

        Args:
            main: Gets the main outputs.
            side: Gets the side outputs, by tag id.
        """
        moved = self.main
        main += moved
        self.main, self.keys = [], []
        if self.side:
            for tag_id, (_, values) in self.side.items():
                side.setdefault(tag_id, []).extend(values)
            self.side = {}
        return moved

    def __len__(self) -> int:
        return len(self.main) + sum(len(values) for _, values in self.side.values())

    def emit(self, results: Iterable[Any], key: Any) -> None:
        """Take in all that one call gave.

        Raises:
            OutputError: It is no iterable of outputs.
        """
        if results.__class__ is not GeneratorType:
            check_results(results)
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                self.emit_side(result, key)
            else:
                self.main.append(_held(result))
                self.keys.append(key)

    def emit_side(self, result: Sequence[Any], key: Any) -> None:
        """Take in a tuple that begins with an `OutputTag`.

        Raises:
            OutputError: It is not a pair.
        """
        if len(result) != 2:
            msg = (
                f"a side output is `yield tag, value`, got {len(result)} elements: {shown(result)}"
            )
            raise OutputError(msg)
        tag, value = result
        keys, values = self.side.setdefault(tag.tag_id, ([], []))
        keys.append(key)
        values.append(_held(value))


class TimedOutputs(Outputs):
    """Outputs with their times: each is a pair, also in side outputs; keys are not kept.

    An output has the time of the element or timer that it was given for, unless it is a
    `TimedResult` itself.  Records are to be processed one by one (`Caller.one_by_one`).  Outputs are
    kept as they are when they are given: a function may change one and give it again.

    Args:
        time: Tells the time of the current element or timer in ms; None where it has none.
    """

    def __init__(self, time: Callable[[], int | None]) -> None:
        super().__init__()
        self._time = time

    def _made(self, *parts: Any) -> Outputs:
        return Outputs(*parts)

    def emit(self, results: Iterable[Any], key: Any) -> None:
        """Take in all that one call gave, as `Outputs` does."""
        if results.__class__ is not GeneratorType:
            check_results(results)
        main = self.main
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                self.emit_side(result, key)
            elif result.__class__ is TimedResult:
                main.append((as_given(result.value), result.timestamp))
            else:
                main.append((as_given(result), self._time()))

    def emit_side(self, result: Sequence[Any], key: Any) -> None:
        """Take in a tuple that begins with an `OutputTag`, as `Outputs` does."""
        super().emit_side(result, key)
        _, values = self.side[result[0].tag_id]
        values[-1] = (as_given(values[-1]), self._time())
