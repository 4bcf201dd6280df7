# SPDX-License-Identifier: Apache-2.0
"""Window assigners of a program's own, as they are written for PyFlink."""

from __future__ import annotations

import pytest
from local_support import local

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink.datastream import MergingWindowAssigner, ProcessWindowFunction
from pyflinklike.pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindowSerializer,
    TumblingEventTimeWindows,
    WindowAssigner,
)

PARALLELISM = {"parallelism__default": "2"}


class Whole(WindowAssigner):
    """One window, which fires whenever it has as many elements as jobs have instances."""

    def assign_windows(self, element, timestamp, context):
        return [GlobalWindow()]

    def get_default_trigger(self, env):
        return CountTrigger.of(env.get_parallelism())

    def get_window_serializer(self):
        return GlobalWindowSerializer()

    def is_event_time(self):
        return False


class WithoutEnvironment(Whole):
    """Asked for its trigger without an argument."""

    def get_default_trigger(self):
        return CountTrigger.of(2)


class Inheriting(TumblingEventTimeWindows):
    """Asks its base class, with PyFlink's argument."""

    def get_default_trigger(self, env):
        return super().get_default_trigger(env)


class Listed(ProcessWindowFunction):
    """Gives the elements of a window."""

    def process(self, key, context, elements):
        yield list(elements)


@pytest.mark.parametrize("assigner", [Whole(), WithoutEnvironment()])
def test_an_assigner_of_ones_own_is_asked_for_its_trigger(assigner):
    """With the environment where it takes one, as PyFlink's do, and without."""
    keyed = local(**PARALLELISM).from_collection([1, 2, 3]).key_by(lambda n: 0)

    windows = list(keyed.window(assigner).process(Listed()).execute_and_collect())

    assert [[1, 2]] == windows


def test_window_all_gives_the_environment():
    """As window does."""
    env = local(**PARALLELISM)

    stream = env.from_collection([1, 2, 3]).window_all(Whole()).reduce(lambda a, b: a + b)

    assert [3] == list(stream.execute_and_collect())


def test_an_assigner_of_ones_own_asks_its_base_class():
    """Which takes the argument."""
    keyed = local().from_collection([1]).key_by(lambda n: 0)

    keyed.window(Inheriting(5, 0))


class Forgetful(Whole):
    """Forgets to return its trigger."""

    def get_default_trigger(self, env):
        CountTrigger.of(1)


class Unmerging(EventTimeSessionWindows):
    """Sessions by default with a trigger that cannot merge."""

    def get_default_trigger(self, env):
        return Once()


class Once(ContinuousEventTimeTrigger):
    """Cannot merge."""

    def __init__(self):
        super().__init__(1)

    def can_merge(self):
        return False


def test_a_default_trigger_that_is_none_is_refused():
    """Where the window is declared, and not at the first element."""
    keyed = local().from_collection([1]).key_by(lambda n: 0)

    with pytest.raises(
        DeclarationTypeError,
        match="get_default_trigger of Forgetful must return a Trigger, got None; return for example",
    ):
        keyed.window(Forgetful())


def test_a_default_trigger_that_cannot_merge_is_refused_for_sessions():
    """As one that is given to trigger."""
    assert issubclass(Unmerging, MergingWindowAssigner)
    keyed = local().from_collection([1]).key_by(lambda n: 0)

    with pytest.raises(DeclarationTypeError, match="cannot be used with a trigger that does not"):
        keyed.window(Unmerging(5))
