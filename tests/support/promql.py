# SPDX-License-Identifier: Apache-2.0
"""A small part of PromQL: the names in an expression, and the value of what the alerts use.

Evaluated are selectors without matchers, ranges and offsets, `increase`, `changes`,
`min_over_time`, `max_over_time`, `avg_over_time`, `sum by`, arithmetic, comparisons, `and`, `or`
and `unless`, each on all labels or `on (...)`.  `increase` does not extrapolate to the ends of its
range, as Prometheus does.  `tests/monitoring/test_promtool_alerts.py` compares with Prometheus itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

__all__ = ["Samples", "evaluate", "names_of", "seconds_of"]

Labels = frozenset[tuple[str, str]]
Samples = Mapping[tuple[str, Labels], Sequence[tuple[float, float]]]
"""Times in seconds and values, by the name and labels of a series."""
Vector = dict[Labels, float]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<braces>\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})
  | \[(?P<range>[^\]]*)\]
  | (?P<duration>\d+(?:ms|[smhdwy]))
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<name>[A-Za-z_:][\w:]*)
  | (?P<sign>==|!=|>=|<=|[-+*/%^(),<>])
    )\s*""",
    re.VERBOSE,
)
_GROUPED = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "offset", "bool", *_GROUPED}
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_LOOKBACK = 300


def seconds_of(duration: str) -> float:
    """The seconds of a duration such as `15m`."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", duration).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            msg = f"no PromQL at {expression[at:]!r}"
            raise ValueError(msg)
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind]))
        at = found.end()
    return tokens


def names_of(expression: str) -> set[str]:
    """The names of the metrics in an expression."""
    tokens = [*_tokens(expression), ("end", "")]
    names, depth, grouped = set(), 0, False
    for (kind, text), (_, after) in pairwise(tokens):
        if grouped:
            depth += (text == "(") - (text == ")")
            grouped = depth > 0
        elif kind == "name" and text in _GROUPED and after == "(":
            grouped, depth = True, 0
        elif kind == "name" and text not in _WORDS and after not in ("(", *_GROUPED):
            names.add(text)
    return names


def evaluate(expression: str, samples: Samples, now: float) -> Vector:
    """The instant vector of an expression at a time."""
    parser = _Parser(_tokens(expression), samples, now)
    found: Vector = parser.alternatives()
    assert parser.at == len(parser.tokens), parser.tokens[parser.at :]
    return found


class _Parser:
    """Evaluates as it reads: by descent, a method for each precedence."""

    def __init__(self, tokens: list[tuple[str, str]], samples: Samples, now: float) -> None:
        self.tokens, self.samples, self.now = tokens, samples, now
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        text = self.tokens[self.at][1]
        assert text == expected or not expected, (expected, text)
        self.at += 1
        return text

    def alternatives(self) -> Any:
        left = self.conjunctions()
        while self.peek() == "or":
            _, on = self.take(), self.matching()
            right = self.conjunctions()
            known = {_only(each, on) for each in left}
            left = {**left, **{k: v for k, v in right.items() if _only(k, on) not in known}}
        return left

    def conjunctions(self) -> Any:
        left = self.comparisons()
        while self.peek() in ("and", "unless"):
            keeps, on = self.take() == "and", self.matching()
            known = {_only(each, on) for each in self.comparisons()}
            left = {k: v for k, v in left.items() if (_only(k, on) in known) is keeps}
        return left

    def comparisons(self) -> Any:
        left = self.sums()
        while self.peek() in _COMPARISONS:
            holds = _COMPARISONS[self.take()]
            right = self.sums()
            left = {
                labels: value for labels, value, other in _pairs(left, right) if holds(value, other)
            }
        return left

    def sums(self) -> Any:
        return self._arithmetic(self.products, {"+": operator.add, "-": operator.sub})

    def products(self) -> Any:
        return self._arithmetic(self.atom, {"*": operator.mul, "/": operator.truediv})

    def _arithmetic(self, operand: Callable[[], Any], by: Mapping[str, Any]) -> Any:
        left = operand()
        while self.peek() in by:
            apply, right = by[self.take()], operand()
            left = {labels: apply(a, b) for labels, a, b in _pairs(left, right)}
        return left

    def atom(self) -> Any:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return float(text)
        if text == "(":
            inner = self.alternatives()
            self.take(")")
            return inner
        if text == "sum":
            self.take("by")
            on = self.labels()
            self.take("(")
            inner = self.alternatives()
            self.take(")")
            total: Vector = {}
            for labels, value in inner.items():
                key = _only(labels, on)
                total[key] = total.get(key, 0) + value
            return total
        if text in _OVER_RANGES:
            self.take("(")
            ranges = self.selector(self.take())
            self.take(")")
            applied = ((labels, _OVER_RANGES[text](values)) for labels, values in ranges)
            return {labels: value for labels, value in applied if value is not None}
        return {labels: values[-1] for labels, values in self.selector(text)}

    def selector(self, name: str) -> list[tuple[Labels, list[float]]]:
        length, end = float(_LOOKBACK), self.now
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "range":
            length = seconds_of(self.take())
        if self.peek() == "offset":
            self.take()
            end -= seconds_of(self.take())
        found = []
        for (named, labels), points in self.samples.items():
            if named == name:
                values = [value for at, value in points if end - length <= at <= end]
                found += [(labels, values)] if values else []
        return found

    def matching(self) -> list[str] | None:
        if self.peek() != "on":
            return None
        self.take()
        return self.labels()

    def labels(self) -> list[str]:
        self.take("(")
        names = []
        while (text := self.take()) != ")":
            if text != ",":
                names.append(text)
        return names


def _only(labels: Labels, names: list[str] | None) -> Labels:
    return labels if names is None else frozenset(each for each in labels if each[0] in names)


def _pairs(left: Any, right: Any) -> Iterator[tuple[Labels, float, float]]:
    """The values of two sides that belong together; a number belongs to all."""
    if isinstance(left, float):
        yield from ((labels, left, value) for labels, value in right.items())
    elif isinstance(right, float):
        yield from ((labels, value, right) for labels, value in left.items())
    else:
        yield from ((each, left[each], right[each]) for each in left if each in right)


def _increase(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    # Where a counter falls, its program has begun anew.
    return sum(b - a if b >= a else b for a, b in pairwise(values))


_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_OVER_RANGES: Mapping[str, Callable[[list[float]], float | None]] = {
    "increase": _increase,
    "changes": lambda values: float(sum(a != b for a, b in pairwise(values))),
    "min_over_time": min,
    "max_over_time": max,
    "avg_over_time": lambda values: sum(values) / len(values),
}
