# SPDX-License-Identifier: Apache-2.0
import operator
import pickle

import pytest

from pyflinklike._clock import TimeDomain
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.contexts import KeyedStateStore, RuntimeContext, TimerService
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.state.fold_functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    ReduceFunctionWrapper,
    as_reduce_function,
)
from pyflinklike.types import Types


class Echo(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class ThirdOfSix(RuntimeContext):
    """The context of one of six instances, which has no state."""

    def get_state(self, state_descriptor):
        raise NotImplementedError

    get_list_state = get_map_state = get_state
    get_reducing_state = get_aggregating_state = get_state

    def get_task_name(self):
        return "MyTask"

    def get_number_of_parallel_subtasks(self):
        return 6

    def get_max_number_of_parallel_subtasks(self):
        return 128

    def get_index_of_this_subtask(self):
        return 2

    def get_attempt_number(self):
        return 0

    def get_job_parameter(self, key, default_value):
        return default_value

    def get_metrics_group(self):
        raise NotImplementedError


class AtMidnight(KeyedProcessFunction.OnTimerContext):
    """The context of a timer that is due."""

    def get_current_key(self):
        return "a"

    def timer_service(self):
        raise NotImplementedError

    def timestamp(self):
        return 0

    def time_domain(self):
        return TimeDomain.EVENT_TIME


@pytest.mark.parametrize("function", [Function(), Echo(), Longest(), Mean()])
def test_open_and_close_need_not_be_overridden(function):
    """All that users subclass has them, and by default they do nothing."""
    assert (True, None, None) == (
        isinstance(function, Function),
        function.open(ThirdOfSix()),
        function.close(),
    )


def test_on_timer_need_not_be_overridden():
    """It yields nothing; whatever takes the context of an element takes that of a timer."""
    assert None is Echo().on_timer(0, AtMidnight())
    assert isinstance(AtMidnight(), KeyedProcessFunction.Context)


@pytest.mark.parametrize(
    ("expected", "kind"),
    [
        ({"process_element"}, KeyedProcessFunction),
        ({"reduce"}, ReduceFunction),
        ({"create_accumulator", "add", "get_result", "merge"}, AggregateFunction),
        ({"get_current_key", "timer_service", "timestamp"}, KeyedProcessFunction.Context),
        (
            {"get_current_key", "timer_service", "timestamp", "time_domain"},
            KeyedProcessFunction.OnTimerContext,
        ),
        (
            {
                "get_state",
                "get_list_state",
                "get_map_state",
                "get_reducing_state",
                "get_aggregating_state",
            },
            KeyedStateStore,
        ),
        (
            {
                "current_processing_time",
                "current_watermark",
                "register_processing_time_timer",
                "register_event_time_timer",
                "delete_processing_time_timer",
                "delete_event_time_timer",
                "list_processing_time_timers",
                "list_event_time_timers",
            },
            TimerService,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_must_be_written(expected, kind):
    """A subclass must write these methods, and no others."""
    assert expected == kind.__abstractmethods__


@pytest.mark.parametrize("kind", [KeyedProcessFunction, ReduceFunction, AggregateFunction])
def test_unwritten_functions_cannot_be_made(kind):
    """A function that lacks its methods fails when it is made, not when it is run."""
    with pytest.raises(TypeError, match="abstract"):
        kind()


def test_runtime_context_is_a_keyed_state_store():
    """A function obtains its states from its runtime context."""
    assert issubclass(RuntimeContext, KeyedStateStore)


def test_task_name_with_subtasks_counts_from_one():
    """The third of six instances has index 2 and is called (3/6), as in Flink."""
    assert "MyTask (3/6)" == ThirdOfSix().get_task_name_with_subtasks()


@pytest.mark.parametrize("function", [operator.add, lambda a, b: a + b, int.__add__])
def test_a_callable_becomes_a_reduce_function(function):
    """Any of two arguments; a ReduceFunction is taken as it is."""
    made = as_reduce_function(function)
    assert (5, True) == (made.reduce(2, 3), isinstance(made, ReduceFunction))
    assert made is as_reduce_function(made)


def test_reduce_keeps_the_order_of_its_arguments():
    """The callable gets what was there first and what is added second."""
    assert ("old", "new") == as_reduce_function(lambda a, b: (a, b)).reduce("old", "new")


def test_wrappers_are_compared_by_what_they_wrap():
    """So descriptors of one callable are equal, also behind a pickle."""
    wrapper = as_reduce_function(operator.add)
    assert [wrapper] * 2 == [
        ReduceFunctionWrapper(operator.add),
        pickle.loads(pickle.dumps(wrapper)),
    ]
    assert ReduceFunctionWrapper(operator.mul) != wrapper


@pytest.mark.parametrize(
    ("function", "text"),
    [
        *((each, "The input must be a ReduceFunction or a callable") for each in (None, 3, "add")),
        (Longest, "give an instance"),
    ],
)
def test_a_reduce_function_must_be_callable(function, text):
    """Anything else is refused in PyFlink's words; a class is callable, but is not meant."""
    with pytest.raises(DeclarationTypeError, match=text):
        as_reduce_function(function)


# Output tags


def test_a_tag_has_an_id_and_a_type():
    """A list of types is a row of them; without a type it takes any object, pickled."""
    types = [Types.STRING(), Types.LONG()]
    tags = [OutputTag("late", types[0]), OutputTag("late", types), OutputTag("late")]
    assert [types[0], Types.ROW(types), Types.PICKLED_BYTE_ARRAY()] == [
        each.type_info for each in tags
    ]
    assert {"late"} == {each.tag_id for each in tags}


def test_a_tag_is_known_by_its_id():
    """Whatever its type, and as key of a dict; a str that is yielded is not taken for one."""
    tag = OutputTag("late", Types.STRING())
    copied = pickle.loads(pickle.dumps(tag))
    assert (tag, Types.STRING()) == (copied, copied.type_info)
    assert 1 == {tag: 1}[OutputTag("late", Types.LONG())]
    assert (False, False) == (tag == OutputTag("early"), tag == "late")
    with pytest.raises(AttributeError):
        tag.tag_id = "early"  # type: ignore[misc]


NO_ID = "OutputTag tag_id cannot be None or empty string"
NO_TYPE = "OutputTag type_info must be None, list or TypeInformation"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        *(((each,), DeclarationValueError, NO_ID) for each in (None, "")),
        *(((each,), DeclarationTypeError, "tag_id must be a str") for each in (0, b"x", ["late"])),
        *(
            (("late", each), DeclarationTypeError, NO_TYPE)
            for each in (str, "string", 0, (Types.STRING(),))
        ),
    ],
)
def test_a_wrong_tag_is_refused(arguments, error, text):
    """In PyFlink's words."""
    with pytest.raises(error, match=text):
        OutputTag(*arguments)
