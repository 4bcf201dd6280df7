# SPDX-License-Identifier: Apache-2.0
"""The metrics of a user's function, which its host reads.

A metric is a few integers in the worker's memory.  It is no state: it belongs to no key, is not
durable, and starts at zero whenever the function is opened.  The host reads it with
`MetricGroup.snapshot()` and reports it as its engine does.

The full name of a metric identifies it: the names of its groups and its own, joined by dots.  So a
group is only a prefix, and `group.add_group("a").counter("b")` is the counter `group.counter("a.b")`.
If a name is registered again, the result is the same metric; another kind under the name is an error.

No code here reads a clock: a meter only counts its events, and the rate follows from two snapshots
and the time between them.  Kinds and signatures are PyFlink's (`pyflink.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import attrs

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    UserFunctionError,
)


@attrs.define(eq=False)
class MetricGroup:
    """The place where a function registers metrics, as `pyflink.metrics.MetricGroup`.

    The methods that take a name raise a `DeclarationTypeError` if it is not a str, a
    `DeclarationValueError` if it is empty, and a `DeclarationError` if a metric of another kind has
    the name.
    """

    _prefix: str = attrs.field(default="", init=False)
    _metrics: dict[str, _Metric] = attrs.field(factory=dict, init=False, repr=False)

    def counter(self, name: str) -> Counter:
        """Return the counter of this name."""
        return self._register(name, Counter())

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Let the host call `obj` when it wants the number; a later `obj` of the name replaces it.

        If a function is opened again, the closure of the earlier instance must not be read any more.

        Raises:
            DeclarationTypeError: `obj` is not callable.
        """
        given: Any = obj
        if not callable(given):
            msg = f"a gauge must be a callable, got {short_repr(given)}; give for example lambda: 1"
            raise DeclarationTypeError(msg)
        self._register(name, _Gauge(obj)).read = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of this name; its span is the span of its first registration.

        Raises:
            DeclarationTypeError: The span is not an int.
            DeclarationValueError: The span is not positive.
        """
        msg = (
            f"time_span_in_seconds must be a positive int, "
            f"got {short_repr(time_span_in_seconds)}; the default is 60"
        )
        span: Any = time_span_in_seconds
        if not is_int(span):
            raise DeclarationTypeError(msg)
        if span < 1:
            raise DeclarationValueError(msg)
        return self._register(name, Meter(span))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of this name."""
        return self._register(name, Distribution())

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group `name` in this group; with `extra`, the group `extra` in that group."""
        _check_name(name)
        group = MetricGroup()
        group._prefix = f"{self._prefix}{name}."
        group._metrics = self._metrics
        return group if extra is None else group.add_group(extra)

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers of this group and of the groups in it, by full name.

        A distribution has four numbers: `name.count`, `name.sum`, and once it has a value
        `name.min` and `name.max`.

        Raises:
            UserFunctionError: A gauge's callable raised.
        """
        numbers: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            if name.startswith(self._prefix):
                numbers.update(_numbers(name, metric))
        return numbers

    @property
    def registered(self) -> Mapping[Any, Any]:
        """All metrics in the groups of the operator, also those that are registered later."""
        return self._metrics

    def mark(self) -> MetricMarks:
        """Return the present counts of all metrics of this group, for `go_back`."""
        return [
            (each, _get_counts(each))
            for each in self._metrics.values()
            if not isinstance(each, _Gauge)
        ]

    def go_back(self, marks: MetricMarks) -> None:
        """Forget the counts since a mark; a metric that is new since then counts from 0."""
        known = {id(metric) for metric, _ in marks}
        for metric, counts in marks:
            _set_counts(metric, counts)
        for metric in self._metrics.values():
            if not isinstance(metric, _Gauge) and id(metric) not in known:
                _set_counts(metric, _get_counts(type(metric)()))

    def _register(self, name: str, new: _M) -> _M:
        _check_name(name)
        full_name = f"{self._prefix}{name}"
        metric = self._metrics.setdefault(full_name, new)
        if not isinstance(metric, type(new)):
            kind, other = (type(m).__name__.strip("_").lower() for m in (metric, new))
            msg = f"metric {full_name!r} is already a {kind}, got a {other}; use another name"
            raise DeclarationError(msg)
        return metric


def _check_name(name: str) -> None:
    """Refuse a name of a metric or group that is empty or no str."""
    msg = (
        f"the name of a metric or group must be a non-empty str, got {short_repr(name)}; "
        f"give for example 'late_records'"
    )
    if not isinstance(name, str):
        raise DeclarationTypeError(msg)
    if not name:
        raise DeclarationValueError(msg)


def _numbers(name: str, metric: _Metric) -> dict[str, Any]:
    """Return the numbers of one metric, by full name."""
    if isinstance(metric, Distribution):
        numbers = attrs.asdict(metric).items()
        return {f"{name}.{part}": n for part, n in numbers if n is not None}
    if not isinstance(metric, _Gauge):
        return {name: metric.get_count()}
    try:
        return {name: metric.read()}
    except PyflinklikeError:
        raise
    except Exception as error:
        msg = f"gauge {name!r} must return a number, it raised {short_repr(error)}; correct it"
        raise UserFunctionError(msg) from error


def _get_counts(metric: Any) -> tuple[Any, ...]:
    if isinstance(metric, Distribution):
        return metric.count, metric.sum, metric.min, metric.max
    return (metric._count,)


def _set_counts(metric: Any, counts: tuple[Any, ...]) -> None:
    if isinstance(metric, Distribution):
        metric.count, metric.sum, metric.min, metric.max = counts
    else:
        (metric._count,) = counts


class Metric:
    """The base of the metrics that a `MetricGroup` registers, as `pyflink.metrics.Metric`."""

    __slots__ = ()


@attrs.define(eq=False)
class Counter(Metric):
    """A number that goes up and down."""

    _count: int = attrs.field(default=0, init=False)

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self._count -= n

    def get_count(self) -> int:
        """Return the present number."""
        return self._count


@attrs.define(eq=False)
class Meter(Metric):
    """A number of events, for a rate.

    Args:
        time_span_in_seconds: The number of seconds over which a reader should average.
    """

    time_span_in_seconds: int = 60
    _count: int = attrs.field(default=0, init=False)

    def mark_event(self, value: int = 1) -> None:
        """Count `value` events."""
        self._count += value

    def get_count(self) -> int:
        """Return how many events there were."""
        return self._count


@attrs.define(eq=False)
class Distribution(Metric):
    """The number, the sum, the least and the greatest of some integers.

    `min` and `max` are None until the first value.
    """

    count: int = attrs.field(default=0, init=False)
    sum: int = attrs.field(default=0, init=False)
    min: int | None = attrs.field(default=None, init=False)
    max: int | None = attrs.field(default=None, init=False)

    def update(self, value: int) -> None:
        """Add one value; the fraction of a float is cut off, as in PyFlink."""
        value = int(value)
        self.count += 1
        self.sum += value
        if self.min is None or value < self.min:
            self.min = value
        if self.max is None or value > self.max:
            self.max = value


@attrs.define(eq=False)
class _Gauge:
    """A number that is read on demand."""

    read: Callable[[], Any]


_Metric = Counter | Meter | Distribution | _Gauge
_M = TypeVar("_M", Counter, Meter, Distribution, _Gauge)

MetricMarks = Sequence[tuple[Any, Any]]
"""Metrics, each with its counts."""

# For a host that adds up the counts of many tasks


class MetricIncrements:
    """Returns how much the metrics of a group have counted since the last call.

    Counters and meters add up, and so do the count and the sum of a distribution.  Its least and
    greatest values do not.  A gauge is read when it is taken; over many tasks, a host can report only
    the least and the greatest reading.
    """

    def __init__(self, group: MetricGroup) -> None:
        self._metrics = group._metrics
        self._last: dict[str, int] = {}

    def begin(self) -> None:
        """Begin another batch, which has its own least and greatest values."""
        for metric in self._metrics.values():
            if isinstance(metric, Distribution):
                metric.min = metric.max = None

    def take(self) -> list[Increment]:
        """Return the increments that are not zero, and the extremes.

        Raises:
            UserFunctionError: A gauge's callable raised.
        """
        increments: list[Increment] = []
        for name, metric in self._metrics.items():
            if isinstance(metric, _Gauge):
                value = int(_numbers(name, metric)[name])
                increments.append(Increment(f"{name}.min", "min", value))
                increments.append(Increment(f"{name}.max", "max", value))
            elif not isinstance(metric, Distribution):
                self._add(increments, own_name(name), metric.get_count())
            elif self._add(increments, f"{name}.count", metric.count):
                # Only after new values: otherwise the least and the greatest one are old, too.
                self._add(increments, f"{name}.sum", metric.sum)
                if metric.min is not None and metric.max is not None:
                    increments.append(Increment(f"{name}.min", "min", metric.min))
                    increments.append(Increment(f"{name}.max", "max", metric.max))
        return increments

    def _add(self, increments: list[Increment], name: str, total: int) -> int:
        since = total - self._last.get(name, 0)
        if since:
            self._last[name] = total
            increments.append(Increment(name, "sum", since))
        return since


SUMMARY_PARTS = (".count", ".sum", ".min", ".max")
"""The ends of the names of the numbers of a distribution; a gauge has the last two."""


def own_name(name: str) -> str:
    """Return the name of a counter or meter among increments; no part of a summary has such a name."""
    return f"{name}=" if name.rstrip("=").endswith(SUMMARY_PARTS) else name


def name_of_metric(own: str) -> str:
    """Return the name that a user gave to a metric, from its name among increments."""
    return own[:-1] if own.endswith("=") and own.rstrip("=").endswith(SUMMARY_PARTS) else own


def by_names_of_metrics(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return numbers by the names that users gave; if two names would be the same, they stay apart."""
    names = {own: name_of_metric(own) for own in numbers}
    # If the names are the same, the other one is a part of a summary, and keeps its name.
    return {own if names.get(name) == name else name: numbers[own] for own, name in names.items()}


class Increment(NamedTuple):
    """A number for a host that adds up what many tasks count.

    Args:
        name: The full name of the metric; for a distribution or gauge with the part, such as ".min".
        how: How a host combines the numbers of this name.
        value: The number counted since the last increment, or the least or greatest value.
    """

    name: str
    how: Literal["sum", "min", "max"]
    value: int
