# SPDX-License-Identifier: Apache-2.0
"""Outputs of a function, gathered until its host takes them.

`yield value` is a main output, `yield tag, value` a side output.  A function may also return an
iterable of outputs, or None if it has no outputs.

Outputs from before the watermark are kept apart from later ones, since the next operator must see
the watermark between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import GeneratorType
from typing import Any

import attrs

from pyflinklike._messages import short_repr
from pyflinklike.errors import OutputError, StateValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import TimedResult, check_results
from pyflinklike.types.copies import as_given

CHANGEABLE = frozenset({list, dict})
"""Classes of rows that a function may fill anew and yield again, so that they must be copied."""


def _detach(output: Any) -> Any:
    """Copy a row that the function may change later; return any other output as it is."""
    return output.copy() if output.__class__ in CHANGEABLE else output


@attrs.define
class Outputs:
    """Outputs in the order in which the function yielded them.

    Args:
        main: The main outputs, in the form in which the function yielded them.
        keys: For each main output the key under which it was yielded, frozen.
        side: For each tag id the same two lists of a side output, keys first.
    """

    main: list[Any] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    side: dict[str, tuple[list[Any], list[Any]]] = attrs.field(factory=dict)
    checks_tags: bool = attrs.field(default=False, init=False, eq=False, repr=False)
    """Whether a value must fit the type of its tag; other hosts check it by the declared columns."""
    _before: Outputs | None = attrs.field(default=None, init=False, eq=False, repr=False)

    def take(self) -> Outputs:
        """Return all outputs, and empty this."""
        before, after = self.take_apart()
        if not before:
            return after
        for tag_id, (keys, values) in after.side.items():
            former_keys, former_values = before.side.setdefault(tag_id, ([], []))
            former_keys += keys
            former_values += values
        return self._make(before.main + after.main, before.keys + after.keys, before.side)

    def watermark_passes(self) -> None:
        """Separate the outputs so far, which are before the watermark, from later ones."""
        if self.main or self.side:
            self._before = self.take()

    def take_apart(self) -> tuple[Outputs, Outputs]:
        """Return the outputs before the watermark and those after it, and empty this."""
        before, after = self._before, self._make(self.main, self.keys, self.side)
        self._before = None
        self.main, self.keys, self.side = [], [], {}
        return before or self._make(), after

    def _make(self, *parts: Any) -> Outputs:
        """Make outputs of the same class, whose length counts in the same way."""
        return type(self)(*parts)

    def move_to(self, main: list[Any], side: dict[str, list[Any]]) -> list[Any]:
        """Move all outputs to the host's lists, and return the moved main outputs.

        Args:
            main: Extended by the main outputs.
            side: Extended by the side outputs, by tag id.
        """
        moved = self.main
        main += moved
        self.main, self.keys = [], []
        if self.side:
            for tag_id, (_, values) in self.side.items():
                side.setdefault(tag_id, []).extend(values)
            self.side = {}
        return moved

    def count_sides(self) -> dict[str, int]:
        """Return how many outputs there are of each tag."""
        return {tag_id: len(values) for tag_id, (_, values) in self.side.items()}

    def go_back(self, main: int, side: Mapping[str, int]) -> None:
        """Drop the latest outputs; the host must not have taken any since the numbers were counted.

        Args:
            main: How many main outputs to keep.
            side: How many side outputs to keep, by tag id.
        """
        del self.main[main:], self.keys[main:]  # `keys` may be empty: `TimedOutputs` keeps no keys
        for tag_id, lists in list(self.side.items()):
            left = side.get(tag_id, 0)
            for each in lists:
                del each[left:]
            if not left:
                del self.side[tag_id]

    def __len__(self) -> int:
        return len(self.main) + sum(len(values) for _, values in self.side.values())

    def emit(self, results: Iterable[Any], key: Any) -> None:
        """Add the results of one call.

        Raises:
            OutputError: The results are not an iterable of outputs.
        """
        if results.__class__ is not GeneratorType:
            check_results(results)
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                self.emit_side(result, key)
            else:
                self.main.append(_detach(result))
                self.keys.append(key)

    def emit_side(self, result: Sequence[Any], key: Any) -> None:
        """Add a side output, given as a tuple that begins with an `OutputTag`.

        Raises:
            OutputError: The tuple is not a pair, or the value does not fit the type of the tag.
        """
        if len(result) != 2:
            msg = f"a side output is `yield tag, value`, got {len(result)} elements: {short_repr(result)}"
            raise OutputError(msg)
        tag, value = result
        if self.checks_tags and value is not None:
            try:
                tag.type_info.freeze(value)
            except StateValueError as error:
                raise OutputError(f"side output {tag.tag_id!r}: {error}") from error
        keys, values = self.side.setdefault(tag.tag_id, ([], []))
        keys.append(key)
        values.append(_detach(value))


class TimedOutputs(Outputs):
    """Outputs as pairs with their times, also in side outputs, but without keys.

    An output has the time of the element or timer that yielded it, unless it is a `TimedResult`
    itself.  So the host must process records one by one (`FunctionInvoker.one_by_one`).  Outputs
    are copied at once, since a function may change one and yield it again.

    Args:
        time: Returns the time of the current element or timer in ms, or None.
    """

    def __init__(self, time: Callable[[], int | None]) -> None:
        super().__init__()
        self._time = time

    def _make(self, *parts: Any) -> Outputs:
        # Outputs that the host takes already have their times, so plain `Outputs` hold them.
        return Outputs(*parts)

    def emit(self, results: Iterable[Any], key: Any) -> None:
        """Add the results of one call, as `Outputs` does."""
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
        """Add a side output, as `Outputs` does."""
        super().emit_side(result, key)
        _, values = self.side[result[0].tag_id]
        values[-1] = (as_given(values[-1]), self._time())
