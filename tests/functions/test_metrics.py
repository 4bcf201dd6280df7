# SPDX-License-Identifier: Apache-2.0
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


def fail():
    """A gauge that fails."""
    raise KeyError("size")


def touch_state():
    """A gauge that reads state where there is no key."""
    raise StateAccessError("no current key")


def test_no_metrics(group):
    """A group in which nothing is registered has no numbers."""
    assert {} == group.snapshot()


def test_counter_starts_at_zero(group):
    """A counter that was never used is reported as 0."""
    group.counter("n")

    assert {"n": 0} == group.snapshot()


def test_counter_counts_one(group):
    """`inc` and `dec` count one unless told otherwise."""
    counter = group.counter("n")

    counter.inc()
    counter.inc()
    counter.dec()

    assert 1 == counter.get_count()


def test_counter_counts_many(group):
    """`inc` and `dec` take the number to count."""
    counter = group.counter("n")

    counter.inc(10)
    counter.dec(3)

    assert 7 == counter.get_count()


def test_counter_may_be_negative(group):
    """Nothing keeps a counter above 0."""
    counter = group.counter("n")

    counter.dec()

    assert -1 == counter.get_count()


def test_counter_is_reported(group):
    """A counter's number is that of its last change."""
    group.counter("n").inc(4)

    assert {"n": 4} == group.snapshot()


def test_meter_starts_at_zero(group):
    """A meter has seen no event."""
    assert 0 == group.meter("events").get_count()


def test_meter_counts_one(group):
    """`mark_event` counts one event unless told otherwise."""
    meter = group.meter("events")

    meter.mark_event()

    assert 1 == meter.get_count()


def test_meter_counts_many(group):
    """`mark_event` takes the number of events."""
    meter = group.meter("events")

    meter.mark_event(5)

    assert {"events": 5} == group.snapshot()


def test_meter_span_by_default(group):
    """A meter asks for an average over a minute."""
    assert 60 == group.meter("events").time_span_in_seconds


def test_meter_span(group):
    """A meter keeps the span it was registered with first."""
    group.meter("events", time_span_in_seconds=10)

    assert 10 == group.meter("events").time_span_in_seconds


@pytest.mark.parametrize("span", [0, -60])
def test_meter_span_must_be_positive(group, span):
    """A span of no time is refused."""
    with pytest.raises(DeclarationValueError, match="time_span_in_seconds"):
        group.meter("events", span)


@pytest.mark.parametrize("span", [None, True, 0.5, "60"])
def test_meter_span_must_be_an_int(group, span):
    """A span that is not an int is refused."""
    with pytest.raises(DeclarationTypeError, match="time_span_in_seconds"):
        group.meter("events", span)


def test_distribution_starts_empty(group):
    """A distribution that has no value reports no least and no greatest."""
    group.distribution("size")

    assert {"size.count": 0, "size.sum": 0} == group.snapshot()


def test_distribution_of_values(group):
    """A distribution keeps number, sum, least and greatest of its values."""
    distribution = group.distribution("size")

    for value in (5, -2, 9):
        distribution.update(value)

    expected = {"size.count": 3, "size.sum": 12, "size.min": -2, "size.max": 9}
    assert expected == group.snapshot()


def test_distribution_of_one_value(group):
    """A single value is both least and greatest."""
    distribution = group.distribution("size")

    distribution.update(5)

    assert (5, 5) == (distribution.min, distribution.max)


def test_distribution_takes_whole_numbers(group):
    """The fraction of a float is cut off, as in PyFlink."""
    distribution = group.distribution("size")

    distribution.update(2.9)

    assert 2 == distribution.sum


def test_gauge_is_asked_when_read(group):
    """A gauge's callable is called for each snapshot."""
    queue = []
    group.gauge("length", lambda: len(queue))

    queue.append("x")

    assert {"length": 1} == group.snapshot()


def test_gauge_returns_nothing(group):
    """There is nothing a user could do with a gauge, so none is returned."""
    assert None is group.gauge("length", lambda: 1)


def test_last_gauge_wins(group):
    """A function that is opened anew is read through its new callable."""
    group.gauge("length", lambda: 1)
    group.gauge("length", lambda: 2)

    assert {"length": 2} == group.snapshot()


@pytest.mark.parametrize("obj", [None, 1])
def test_gauge_must_be_callable(group, obj):
    """A gauge that is a number is refused when it is registered."""
    with pytest.raises(DeclarationTypeError, match="callable"):
        group.gauge("length", obj)


def test_refused_gauge_leaves_the_name(group):
    """A gauge that was refused does not take the name."""
    with pytest.raises(DeclarationTypeError):
        group.gauge("length", 1)

    assert {} == group.snapshot()


def test_failing_gauge_is_the_users_error(group):
    """What a gauge's callable raises is told with the gauge's full name."""
    group.add_group("queue").gauge("length", fail)

    with pytest.raises(UserFunctionError, match=r"gauge 'queue\.length'"):
        group.snapshot()


def test_failing_gauge_keeps_the_cause(group):
    """What a gauge's callable raised is chained."""
    group.gauge("length", fail)

    with pytest.raises(UserFunctionError) as caught:
        group.snapshot()

    assert isinstance(caught.value.__cause__, KeyError)


def test_our_errors_pass_through_a_gauge(group):
    """An error of pyflinklike keeps its class."""
    group.gauge("length", touch_state)

    with pytest.raises(StateAccessError):
        group.snapshot()


@pytest.mark.parametrize("kind", ["counter", "meter", "distribution"])
def test_same_name_is_the_same_metric(group, kind):
    """Registering a name again gives the metric that is there."""
    metric = REGISTER[kind](group, "n")

    assert metric is REGISTER[kind](group, "n")


def test_different_names_are_different_metrics(group):
    """Two counters do not share their number."""
    group.counter("a").inc()
    group.counter("b").inc(2)

    assert {"a": 1, "b": 2} == group.snapshot()


@pytest.mark.parametrize(("first", "second"), list(permutations(KINDS, 2)))
def test_name_has_one_kind(group, first, second):
    """A name cannot be registered again as another kind."""
    REGISTER[first](group, "n")

    with pytest.raises(DeclarationError, match=f"'n' is already a {first}, got a {second}"):
        REGISTER[second](group, "n")


@pytest.mark.parametrize("kind", KINDS)
def test_name_must_not_be_empty(group, kind):
    """A metric without a name is refused."""
    with pytest.raises(DeclarationValueError, match="non-empty str"):
        REGISTER[kind](group, "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [None, 1])
def test_name_must_be_a_str(group, kind, name):
    """A name that is not a str is refused."""
    with pytest.raises(DeclarationTypeError, match="non-empty str"):
        REGISTER[kind](group, name)


def test_nested_names_are_dotted(group):
    """A metric is reported under the names of its groups and its own."""
    group.add_group("a").add_group("b").counter("n").inc()

    assert {"a.b.n": 1} == group.snapshot()


def test_group_of_key_and_value(group):
    """A group with an extra is a group in a group, as Flink's key and value."""
    group.add_group("country", "nl").counter("n").inc()

    assert {"country.nl.n": 1} == group.snapshot()


def test_same_group_again(group):
    """Adding a group again finds its metrics."""
    counter = group.add_group("a").counter("n")

    assert counter is group.add_group("a").counter("n")


def test_groups_keep_names_apart(group):
    """One name in two groups is two metrics, of two kinds if need be."""
    group.counter("n").inc(1)
    group.add_group("a").meter("n").mark_event(2)

    assert {"n": 1, "a.n": 2} == group.snapshot()


def test_dotted_name_is_the_nested_one(group):
    """A dot in a name is what a group would have put there."""
    counter = group.add_group("a").counter("n")

    assert counter is group.counter("a.n")


def test_group_reports_its_own(group):
    """A group's snapshot has what is in it, by full name."""
    group.counter("n")
    group.add_group("ab").counter("n")
    inner = group.add_group("a")
    inner.counter("n")

    assert {"a.n": 0} == inner.snapshot()


@pytest.mark.parametrize("names", [("",), ("a", "")])
def test_group_name_must_not_be_empty(group, names):
    """A group without a name is refused."""
    with pytest.raises(DeclarationValueError, match="non-empty str"):
        group.add_group(*names)


@pytest.mark.parametrize("names", [(None,), (1,), ("a", 1)])
def test_group_name_must_be_a_str(group, names):
    """A group's name that is not a str is refused."""
    with pytest.raises(DeclarationTypeError, match="non-empty str"):
        group.add_group(*names)


def test_roots_share_nothing(group):
    """Two functions that use one name do not count together."""
    group.counter("n").inc()

    assert {} == MetricGroup().snapshot()
