# SPDX-License-Identifier: Apache-2.0
"""A user's metrics: counters, meters, distributions and gauges, in groups, by name."""

from itertools import permutations

import pytest

from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    StateAccessError,
    UserFunctionError,
)
from pyflinklike.functions.metric_group import MetricGroup

REGISTER = {
    "counter": lambda group, name: group.counter(name),
    "gauge": lambda group, name: group.gauge(name, lambda: 1),
    "meter": lambda group, name: group.meter(name),
    "distribution": lambda group, name: group.distribution(name),
}
KINDS = list(REGISTER)


@pytest.fixture
def group():
    """A root group with no metrics."""
    return MetricGroup()


def test_metrics_begin_empty(group):
    """A distribution without a value has no least and no greatest; a group without metrics is empty."""
    assert {} == group.snapshot()
    for kind in ("counter", "meter", "distribution"):
        REGISTER[kind](group, kind)
    empty = {"counter": 0, "meter": 0, "distribution.count": 0, "distribution.sum": 0}
    assert empty == group.snapshot()
    assert 0 == group.meter("meter").get_count()


def test_a_counter_counts(group):
    """One or many, up and down, below 0 too; each by its own name."""
    counter = group.counter("n")
    for count in (counter.inc, counter.inc, counter.dec):
        count()
    assert 1 == counter.get_count()
    counter.inc(10)
    counter.dec(13)
    group.counter("other").inc(2)
    assert (-2, {"n": -2, "other": 2}) == (counter.get_count(), group.snapshot())


def test_a_meter_counts_events_over_a_span(group):
    """A minute by default; it keeps the span that it was registered with first."""
    group.meter("events").mark_event()
    group.meter("events").mark_event(4)
    spans = [
        group.meter("events").time_span_in_seconds,
        group.meter("m", time_span_in_seconds=10).time_span_in_seconds,
        group.meter("m").time_span_in_seconds,
    ]
    assert (5, [60, 10, 10]) == (group.snapshot()["events"], spans)


@pytest.mark.parametrize(
    ("span", "error"),
    [
        *((each, DeclarationValueError) for each in (0, -60)),
        *((each, DeclarationTypeError) for each in (None, True, 0.5, "60")),
    ],
)
def test_a_span_is_a_positive_int(group, span, error):
    """Of seconds."""
    with pytest.raises(error, match="time_span_in_seconds"):
        group.meter("events", span)


@pytest.mark.parametrize(
    ("values", "expected"),
    [((5, -2, 9), (3, 12, -2, 9)), ((5,), (1, 5, 5, 5)), ((2.9,), (1, 2, 2, 2))],
)
def test_a_distribution_keeps_number_sum_least_and_greatest(group, values, expected):
    """The fraction of a float is cut off, as in PyFlink."""
    for value in values:
        group.distribution("size").update(value)
    names = ("size.count", "size.sum", "size.min", "size.max")
    assert dict(zip(names, expected)) == group.snapshot()


def test_a_gauge_is_asked_when_read(group):
    """For each snapshot; a function that is opened anew is read through its new callable."""
    queue = []
    assert None is group.gauge("length", lambda: -1)
    group.gauge("length", lambda: len(queue))
    queue.append("x")
    assert {"length": 1} == group.snapshot()


@pytest.mark.parametrize("no_callable", [None, 1])
def test_a_gauge_must_be_callable(group, no_callable):
    """One that is refused does not take the name."""
    with pytest.raises(DeclarationTypeError, match="callable"):
        group.gauge("length", no_callable)
    assert {} == group.snapshot()


def test_a_failing_gauge_is_the_users_error(group):
    """It is told with the gauge's full name, and chained; an error of ours keeps its class."""

    def fail():
        raise KeyError("size")

    def touch_state():
        raise StateAccessError("no current key")

    group.add_group("queue").gauge("length", fail)
    with pytest.raises(UserFunctionError, match=r"gauge 'queue\.length'") as caught:
        group.snapshot()
    assert isinstance(caught.value.__cause__, KeyError)
    group.add_group("queue").gauge("length", touch_state)
    with pytest.raises(StateAccessError):
        group.snapshot()


@pytest.mark.parametrize("kind", ["counter", "meter", "distribution"])
def test_the_same_name_is_the_same_metric(group, kind):
    """Registering it again gives the one that is there."""
    assert REGISTER[kind](group, "n") is REGISTER[kind](group, "n")


@pytest.mark.parametrize(("first", "second"), list(permutations(KINDS, 2)))
def test_a_name_has_one_kind(group, first, second):
    """It cannot be registered again as another."""
    REGISTER[first](group, "n")
    with pytest.raises(DeclarationError, match=f"'n' is already a {first}, got a {second}"):
        REGISTER[second](group, "n")


@pytest.mark.parametrize(
    "register", [*REGISTER.values(), lambda g, name: g.add_group(name)], ids=[*KINDS, "group"]
)
@pytest.mark.parametrize(
    ("name", "error"),
    [("", DeclarationValueError), (None, DeclarationTypeError), (1, DeclarationTypeError)],
)
def test_a_name_is_a_str_with_characters(group, register, name, error):
    """Of a metric and of a group."""
    with pytest.raises(error, match="non-empty str"):
        register(group, name)


def test_groups_keep_names_apart(group):
    """A metric is reported under the names of its groups; a dot is what a group would have put there."""
    group.counter("n").inc()
    group.add_group("ab").counter("n")
    inner = group.add_group("a")
    inner.meter("n").mark_event(2)
    inner.add_group("b").counter("n").inc(3)
    group.add_group("country", "nl").counter("n").inc(4)
    assert inner.add_group("b").counter("n") is group.counter("a.b.n")
    assert {"a.n": 2, "a.b.n": 3} == inner.snapshot()
    assert {"n": 1, "ab.n": 0, **inner.snapshot(), "country.nl.n": 4} == group.snapshot()
    assert {} == MetricGroup().snapshot(), "roots share nothing"
    for extra, error in (("", DeclarationValueError), (1, DeclarationTypeError)):
        with pytest.raises(error, match="non-empty str"):
            group.add_group("a", extra)
