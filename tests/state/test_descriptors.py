# SPDX-License-Identifier: Apache-2.0
import pickle
from datetime import timedelta

import pytest
from probe import Driver, Mean, Probe, Sum, drive, harness, obtain

from pyflinklike import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError

HOUR, DAY = (StateTtlConfig(ttl=timedelta(hours=hours)) for hours in (1, 24))
LONG = Types.LONG()
MAKERS = {
    "value": lambda name="s", type_info=LONG: ValueStateDescriptor(name, type_info),
    "list": lambda name="s", type_info=LONG: ListStateDescriptor(name, type_info),
    "map": lambda name="s", type_info=LONG: MapStateDescriptor(name, Types.STRING(), type_info),
    "map_key": lambda name="s", type_info=LONG: MapStateDescriptor(name, type_info, Types.LONG()),
    "reducing": lambda name="s", type_info=LONG: ReducingStateDescriptor(name, max, type_info),
    "aggregating": lambda name="s", type_info=LONG: AggregatingStateDescriptor(
        name, Sum(), type_info
    ),
}
each_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


class Larger(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


def with_ttl(descriptor, config):
    """The descriptor, with that TTL."""
    descriptor.enable_time_to_live(config)
    return descriptor


def declared_twice(first, second):
    """The states that two declarations in one `open` give."""
    return drive(first, second).run(lambda states, _: states)


# The declaration itself


@each_kind
@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((None,), DeclarationValueError, "a state needs a name"),
        (("",), DeclarationValueError, "a state needs a name"),
        ((7,), DeclarationTypeError, "must be a str, got 7"),
        # A state cannot be mistaken for the timers.
        (("__pyflinklike.event_time_timers",), DeclarationValueError, "belong to the runtime"),
        *(
            (("s", each), DeclarationTypeError, "must be a TypeInformation")
            for each in (None, "long", int, Types.LONG)
        ),
    ],
    ids=["None", "empty", "int", "of_timers", "no_type", "str", "class", "factory"],
)
def test_a_state_needs_a_name_and_a_type(make, arguments, error, match):
    """The name is a str of the user's; the type is no Python type and no factory that was not called."""
    with pytest.raises(error, match=match):
        make(*arguments)


@pytest.mark.parametrize("not_a_function", [None, 7, "max", Larger])
def test_a_reduce_function_is_one_or_a_callable(not_a_function):
    """PyFlink's message and type."""
    with pytest.raises(TypeError, match="The input must be a ReduceFunction or a callable"):
        ReducingStateDescriptor("s", not_a_function, Types.LONG())


@pytest.mark.parametrize("not_a_function", [None, 7, max, Sum])
def test_an_aggregate_function_is_one(not_a_function):
    """PyFlink's type; a callable does not do."""
    with pytest.raises(TypeError, match=r"The input must be a .*AggregateFunction!"):
        AggregatingStateDescriptor("s", not_a_function, Types.LONG())


def test_the_attributes_are_pyflinks():
    """The type of a list's elements is found in that of the list."""
    assert "s" == MAKERS["value"]().get_name() == MAKERS["value"]().name
    assert Types.LONG() == MAKERS["value"]().type_info
    assert Types.LONG() == MAKERS["list"]().type_info.elem_type
    assert Types.MAP(Types.STRING(), Types.LONG()) == MAKERS["map"]().type_info


def test_the_functions_can_be_asked_for():
    """A callable comes back as a ReduceFunction."""
    function = Sum()
    assert 2 == MAKERS["reducing"]().get_reduce_function().reduce(1, 2)
    assert function is AggregatingStateDescriptor("s", function, Types.LONG()).get_agg_function()


# TTL


@each_kind
def test_enabling_a_ttl_changes_the_descriptor_and_returns_none(make):
    """As PyFlink's does; at first there is none."""
    descriptor = make()
    assert (None, None) == (descriptor.ttl_config, descriptor.enable_time_to_live(HOUR))
    assert HOUR == descriptor.ttl_config


@pytest.mark.parametrize("off", [None, StateTtlConfig.DISABLED], ids=["None", "DISABLED"])
def test_a_ttl_can_be_switched_off_again(off):
    """A disabled configuration counts as none."""
    descriptor = with_ttl(MAKERS["value"](), HOUR)
    descriptor.enable_time_to_live(off)
    assert MAKERS["value"]() == descriptor


@pytest.mark.parametrize("not_a_config", [timedelta(hours=1), 7, StateTtlConfig])
def test_a_ttl_is_a_configuration(not_a_config):
    """A bare duration is refused, and the remedy is named."""
    with pytest.raises(DeclarationTypeError, match=r"state 's': a TTL must be .*new_builder"):
        MAKERS["value"]().enable_time_to_live(not_a_config)


# Value objects


@each_kind
def test_descriptors_are_equal_by_name_type_and_ttl(make):
    """Each of them counts, and a descriptor comes back from a pickle with its TTL."""
    others = [make("t"), make("s", Types.STRING()), with_ttl(make(), HOUR)]
    assert (make(), hash(make())) == (make(), hash(make()))
    assert [False] * 3 == [make() == other for other in others]
    assert others == pickle.loads(pickle.dumps(others))


def test_descriptors_differ_by_kind_and_function():
    """Two kinds of one name are not equal, nor those that fold otherwise; a name is no descriptor."""
    kinds = [MAKERS[kind]() for kind in ("value", "list", "map", "reducing", "aggregating")]
    kinds.append(ReducingStateDescriptor("s", min, Types.LONG()))
    kinds.append(AggregatingStateDescriptor("s", Mean(), Types.LONG()))
    assert 7 == len(set(kinds))
    assert "s" != kinds[0]
    assert all(isinstance(each, StateDescriptor) for each in kinds)


def test_repr_shows_name_type_and_ttl():
    """What is declared can be read off it."""
    assert "ValueStateDescriptor('s', Long)" == repr(MAKERS["value"]())
    assert "ttl=StateTtlConfig<" in repr(with_ttl(MAKERS["value"](), HOUR))


# The same name twice


@pytest.mark.parametrize("ttl", [None, HOUR], ids=["plain", "ttl"])
@each_kind
def test_the_same_declaration_gives_the_same_state(make, ttl):
    """Whether by the same descriptor or an equal one; an equal TTL is the same TTL."""
    first, second = declared_twice(with_ttl(make(), ttl), with_ttl(make(), ttl))
    assert first is second


@pytest.mark.parametrize(
    "other",
    [
        ReducingStateDescriptor("s", min, Types.LONG()),
        ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()),
        ReducingStateDescriptor("s", Larger(), Types.LONG()),
    ],
    ids=["builtin", "lambda", "instance"],
)
def test_the_function_of_the_first_declaration_stays(other):
    """It is no part of what must agree."""
    first, second = declared_twice(MAKERS["reducing"](), other)
    assert first is second


@each_kind
def test_another_type_of_the_same_name_is_refused(make):
    """With both declarations in the message."""
    with pytest.raises(DeclarationError, match=r"state 's' is already declared .*Long.*String"):
        declared_twice(make(), make("s", Types.STRING()))


@pytest.mark.parametrize("second", [None, DAY], ids=["without", "another"])
@each_kind
def test_another_ttl_of_the_same_name_is_refused(make, second):
    """Flink silently keeps the first; we do not."""
    with pytest.raises(DeclarationError, match="state 's' is already declared"):
        declared_twice(with_ttl(make(), HOUR), with_ttl(make(), second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("value", "list"),
        ("list", "map"),
        ("map", "reducing"),
        ("reducing", "aggregating"),
        ("aggregating", "value"),
        ("value", "reducing"),
    ],
)
def test_another_kind_of_the_same_name_is_refused(first, second):
    """Where Flink has a ClassCastException, with both kinds in the message."""
    kinds = f"{first.title()}StateDescriptor .*{second.title()}StateDescriptor"
    with pytest.raises(DeclarationError, match=kinds):
        declared_twice(MAKERS[first](), MAKERS[second]())


def test_a_ttl_that_is_changed_after_the_state_was_made_counts_for_the_next_declaration():
    """The state stays as it was declared."""
    descriptor = MAKERS["value"]()
    state = drive(descriptor)
    state.update(1)
    descriptor.enable_time_to_live(HOUR)
    assert 1 == state.at(10**9).value()


def test_a_ttl_that_is_changed_between_two_declarations_is_refused():
    """The one descriptor declares two things."""
    descriptor = MAKERS["value"]()
    probe = Probe(descriptor)
    with harness(probe):
        descriptor.enable_time_to_live(HOUR)
        with pytest.raises(DeclarationError, match="state 's' is already declared"):
            obtain(probe.runtime_context, descriptor)


# Getters


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
def test_a_getter_takes_its_own_kind_of_descriptor(kind):
    """Each of the others is refused, and so is what is no descriptor."""
    getters = {
        "value": "get_state",
        "list": "get_list_state",
        "map": "get_map_state",
        "reducing": "get_reducing_state",
        "aggregating": "get_aggregating_state",
    }
    probe = Probe(MAKERS[kind]())
    harness(probe)
    wrong = [name for other, name in getters.items() if other != kind]
    for getter in wrong:
        with pytest.raises(DeclarationTypeError, match="this getter takes a"):
            getattr(probe.runtime_context, getter)(MAKERS[kind]())
    with pytest.raises(DeclarationTypeError, match="this getter takes a"):
        getattr(probe.runtime_context, getters[kind])("s")


def test_a_state_can_be_obtained_outside_open():
    """In process_element, for the key that is current."""
    probe = Probe()
    driver = Driver(harness(probe))

    def count(_, __):
        state = probe.runtime_context.get_state(MAKERS["value"]())
        state.update((state.value() or 0) + 1)
        return state.value()

    assert [1, 2] == [driver.run(count), driver.run(count)]
