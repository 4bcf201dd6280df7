# SPDX-License-Identifier: Apache-2.0
"""The options of operators: who takes which, under which names, in which order."""

from __future__ import annotations

import inspect

import pytest

from pyflinklike import spark
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._plan.process_options import (
    CommonOptions,
    ElementOptions,
    KeyedOptions,
    KeyedProcessOptions,
    ProcessOptions,
    TwoInputOptions,
    TwoInputProcessOptions,
    check_dropped,
)

OPTIONS = {
    "event_time": None,
    "state_backend": None,
    "max_parallelism": None,
    "uid": None,
    "side_outputs": (),
    "job_parameters": None,
    "processing_time_timers": None,
    "from_savepoint": None,
    "savepoint_to": None,
    "watermark_delay": None,
    "output_event_time": None,
    "before_watermark": None,
    "output_before_watermark": None,
    "arrival_order": False,
    "allow_pickle": True,
    "on_error": None,
    "drop_states": (),
}
"""The keywords of `process` with their defaults, in the order in which `help` shows them."""

OTHERS = {
    "IntervalJoined.process": "(process_join_function, output_type, *, event_time, side_outputs=(), output_event_time=None, **options)",
    "KeyedConnectedDataFrames.flat_map": "(function, output_type, **options)",
    "KeyedConnectedDataFrames.map": "(function, output_type, **options)",
    "KeyedDataFrame.filter": "(func, **options)",
    "KeyedDataFrame.flat_map": "(func, output_type, *, side_outputs=(), **options)",
    "KeyedDataFrame.map": "(func, output_type, *, side_outputs=(), **options)",
    "KeyedDataFrame.max": "(position_to_max=0, *, running=None, **options)",
    "KeyedDataFrame.max_by": "(position_to_max_by=0, *, running=None, **options)",
    "KeyedDataFrame.min": "(position_to_min=0, *, running=None, **options)",
    "KeyedDataFrame.min_by": "(position_to_min_by=0, *, running=None, **options)",
    "KeyedDataFrame.reduce": "(func, *, running=None, **options)",
    "KeyedDataFrame.sum": "(position_to_sum=0, *, running=None, **options)",
    "WindowedCoGroup.apply": "(function, output_type, *, event_time=None, **options)",
    "WindowedJoin.apply": "(function, output_type, *, event_time=None, **options)",
    "WindowedDataFrame.aggregate": "(aggregate_function, window_function=None, accumulator_type=None, output_type=None, *, side_outputs=(), **options)",
    "WindowedDataFrame.apply": "(window_function, output_type=None, *, side_outputs=(), **options)",
    "WindowedDataFrame.max": "(position_to_max=0, **options)",
    "WindowedDataFrame.max_by": "(position_to_max_by=0, **options)",
    "WindowedDataFrame.min": "(position_to_min=0, **options)",
    "WindowedDataFrame.min_by": "(position_to_min_by=0, **options)",
    "WindowedDataFrame.reduce": "(reduce_function, window_function=None, output_type=None, *, side_outputs=(), **options)",
    "WindowedDataFrame.sum": "(position_to_sum=0, **options)",
    "WindowedDataFrame.process": "(process_window_function, output_type=None, *, side_outputs=(), **options)",
}
"""The parameters of the methods that pass options on, without their annotations."""


def unannotated(signature):
    """The parameters behind `self`."""
    return [each.replace(annotation=each.empty) for each in list(signature.parameters.values())[1:]]


@pytest.mark.parametrize(
    "cls", [spark.KeyedDataFrame, spark.KeyedConnectedDataFrames, spark.BroadcastConnectedDataFrame]
)
def test_process_shows_its_options(cls):
    """Each is a keyword with its default, behind the function and the type of its outputs."""
    parameters = [
        inspect.Parameter("function", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter("output_type", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in OPTIONS.items()
        ),
    ]

    assert parameters == unannotated(inspect.signature(cls.process))


@pytest.mark.parametrize("name", OTHERS)
def test_methods_that_pass_options_on_keep_their_parameters(name):
    """Also those that are given by position."""
    cls, _, method = name.partition(".")
    signature = inspect.signature(getattr(getattr(spark, cls), method))

    assert OTHERS[name] == str(inspect.Signature(unannotated(signature)))


def test_options_keep_their_types_in_help():
    """The annotations are those of the TypedDicts, as text."""
    one = inspect.signature(spark.KeyedDataFrame.process).parameters
    two = inspect.signature(spark.KeyedConnectedDataFrames.process).parameters

    assert "str | None" == one["event_time"].annotation
    assert "EventTimes | None" == two["event_time"].annotation
    assert "Mapping[str, str] | None" == two["job_parameters"].annotation


@pytest.mark.parametrize("kind", [KeyedProcessOptions, TwoInputProcessOptions])
def test_process_takes_every_option(kind):
    """There is one set of options, whatever the inputs are."""
    assert OPTIONS.keys() == kind.__annotations__.keys()


@pytest.mark.parametrize("kind", [CommonOptions, KeyedOptions, ElementOptions, TwoInputOptions])
def test_options_that_are_passed_on_are_options_of_process(kind):
    """So none is explained where nobody looks."""
    assert kind.__annotations__.keys() < OPTIONS.keys()


def test_options_that_were_not_given_have_their_defaults():
    """`ProcessOptions` alone knows them."""
    backend = HashMapStateBackend()
    options = ProcessOptions.of({"state_backend": backend, "uid": "count"}, CommonOptions)

    assert ProcessOptions(state_backend=backend, uid="count") == options


@pytest.mark.parametrize(
    ("given", "kind"),
    [({"evnt_time": "ts"}, KeyedProcessOptions), ({"side_outputs": []}, KeyedOptions)],
)
def test_an_option_that_a_method_has_not_is_refused(given, kind):
    """A misspelt one and one that the method settles itself, with those that it takes."""
    (name,) = given

    with pytest.raises(
        DeclarationTypeError, match=rf"got \['{name}'\]; choose from \['event_time'"
    ):
        ProcessOptions.of(given, kind)


@pytest.mark.parametrize(
    ("names", "savepoint", "is_streaming", "error", "match"),
    [
        ("old", None, True, DeclarationTypeError, r"got 'old'; write drop_states="),
        ([3], None, True, DeclarationTypeError, "takes names of states, got 3"),
        (["old"], None, False, DeclarationValueError, "in a batch, which has no checkpoint"),
        (["old"], "/saved", True, DeclarationValueError, r"remove_state\(\.\.\.\)"),
    ],
)
def test_names_of_states_to_drop_are_checked(names, savepoint, is_streaming, error, match):
    """A stream that goes on from its checkpoint has states to drop."""
    with pytest.raises(error, match=match):
        check_dropped(names, savepoint, is_streaming=is_streaming)


def test_nothing_is_dropped_by_default():
    """Whatever else a query is."""
    assert () == check_dropped((), "/saved", is_streaming=False)
