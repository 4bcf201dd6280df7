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


@pytest.mark.parametrize("kind", [Echo, Longest, Mean])
def test_user_functions_are_functions(kind):
    """All that users subclass has `open` and `close`."""
    assert issubclass(kind, Function)


@pytest.mark.parametrize("function", [Function(), Echo(), Longest(), Mean()])
def test_open_does_nothing(function):
    """`open` need not be overridden."""
    assert None is function.open(ThirdOfSix())


@pytest.mark.parametrize("function", [Function(), Echo(), Longest(), Mean()])
def test_close_does_nothing(function):
    """`close` need not be overridden."""
    assert None is function.close()


def test_on_timer_does_nothing():
    """`on_timer` need not be overridden, and yields nothing."""
    assert None is Echo().on_timer(0, AtMidnight())


def test_on_timer_context_is_a_context():
    """Whatever takes the context of an element takes that of a timer."""
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


def test_reduce_function_is_taken_as_it_is():
    """A ReduceFunction is not wrapped."""
    function = Longest()

    assert function is as_reduce_function(function)


@pytest.mark.parametrize("function", [operator.add, lambda a, b: a + b, int.__add__])
def test_callable_becomes_a_reduce_function(function):
    """Any callable of two arguments reduces."""
    assert 5 == as_reduce_function(function).reduce(2, 3)


def test_reduce_keeps_the_order_of_its_arguments():
    """The callable gets what was there first and what is added second."""
    assert ("old", "new") == as_reduce_function(lambda a, b: (a, b)).reduce("old", "new")


def test_wrapped_callable_is_a_reduce_function():
    """What wraps a callable passes for what users subclass."""
    assert isinstance(as_reduce_function(operator.add), ReduceFunction)


def test_wrappers_of_one_callable_are_equal():
    """Descriptors that are given one callable twice are equal, so their wrappers are."""
    assert ReduceFunctionWrapper(operator.add) == as_reduce_function(operator.add)


def test_wrappers_of_different_callables_differ():
    """Wrappers are compared by what they wrap."""
    assert ReduceFunctionWrapper(operator.add) != ReduceFunctionWrapper(operator.mul)


def test_wrapper_survives_pickling():
    """A wrapped callable goes to the workers if the callable does."""
    wrapper = ReduceFunctionWrapper(operator.add)

    assert wrapper == pickle.loads(pickle.dumps(wrapper))


@pytest.mark.parametrize("function", [None, 3, "add"])
def test_reduce_function_must_be_callable(function):
    """Anything else is refused in PyFlink's words."""
    text = "The input must be a ReduceFunction or a callable function!"

    with pytest.raises(DeclarationTypeError, match=text):
        as_reduce_function(function)


def test_reduce_function_must_be_an_instance():
    """A ReduceFunction class is callable, but is not meant."""
    with pytest.raises(DeclarationTypeError, match="give an instance"):
        as_reduce_function(Longest)


def test_tag_id():
    """A tag tells its id."""
    assert "late" == OutputTag("late").tag_id


def test_tag_type():
    """A tag tells its type."""
    assert Types.STRING() == OutputTag("late", Types.STRING()).type_info


def test_tag_type_from_list():
    """A list of types is a row of them."""
    types = [Types.STRING(), Types.LONG()]

    assert Types.ROW(types) == OutputTag("late", types).type_info


def test_tag_type_by_default():
    """A tag without a type takes any object, pickled."""
    assert Types.PICKLED_BYTE_ARRAY() == OutputTag("late").type_info


def test_tags_of_one_id_are_equal():
    """A tag is known by its id, whatever its type."""
    assert OutputTag("late", Types.STRING()) == OutputTag("late", Types.LONG())


def test_tags_of_one_id_have_one_hash():
    """A tag made anew finds the side output of the first."""
    assert 1 == {OutputTag("late", Types.STRING()): 1}[OutputTag("late")]


def test_tags_of_different_ids_differ():
    """Another id is another side output."""
    assert OutputTag("late") != OutputTag("early")


def test_tag_is_not_its_id():
    """A str that is yielded is not taken for a tag."""
    assert OutputTag("late") != "late"


def test_tag_is_frozen():
    """A tag cannot be changed."""
    with pytest.raises(AttributeError):
        OutputTag("late").tag_id = "early"  # type: ignore[misc]


def test_tag_survives_pickling():
    """A tag goes to the workers and still names its side output."""
    assert OutputTag("late") == pickle.loads(pickle.dumps(OutputTag("late")))


def test_tag_type_survives_pickling():
    """A tag's type goes to the workers with it."""
    tag = OutputTag("late", Types.STRING())

    assert Types.STRING() == pickle.loads(pickle.dumps(tag)).type_info


@pytest.mark.parametrize("tag_id", [None, ""])
def test_tag_id_must_not_be_empty(tag_id):
    """An id that is None or empty is refused in PyFlink's words."""
    with pytest.raises(
        DeclarationValueError, match="OutputTag tag_id cannot be None or empty string"
    ):
        OutputTag(tag_id)


@pytest.mark.parametrize("tag_id", [0, b"late", ["late"]])
def test_tag_id_must_be_a_str(tag_id):
    """An id that is not a str is refused."""
    with pytest.raises(DeclarationTypeError, match="tag_id must be a str"):
        OutputTag(tag_id)


@pytest.mark.parametrize("type_info", [str, "string", 0, (Types.STRING(),)])
def test_tag_type_must_be_a_type(type_info):
    """A type that is no TypeInformation is refused in PyFlink's words."""
    with pytest.raises(
        DeclarationTypeError,
        match="OutputTag type_info must be None, list or TypeInformation",
    ):
        OutputTag("late", type_info)
