# SPDX-License-Identifier: Apache-2.0
"""The nodes of a graph: steps in the life of elements, one frozen value for each step.

A node has a number, and names its inputs by their numbers, which are smaller.  So a graph has no
circle, and in the order of the numbers every node comes after its inputs.  Settings that a program
may still change (its name, its uid) make another value with the same number, so code holds the
number of a node, not the node.

`KeyBy`, `Partition`, `Union` and `SideOutput` only route elements.  The elements that
a node yields are of its `type_info`.

| node | inputs | function, and how the runtime treats it |
|---|---|---|
| `FromSource` | | |
| `Map` `FlatMap` `Filter` `Process` `AsyncWait` `AssignTimestamps` | 1 | without state |
| `KeyBy` `Partition` `SideOutput` | 1 | |
| `Union` | 1 or more | |
| `Keyed` | a `KeyBy` | with state and timers of keys |
| `KeyedFold` | a `KeyBy` | `pyflinklike.aggregations.Fold`, running or final by the mode |
| `TwoInputs` | 2 | keyed if both are `KeyBy`, else without state |
| `WithBroadcast` | 2, the second broadcast | keyed if the first is `KeyBy` |
| `ToSink` | 1 | |
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import attrs

from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.pyflink._graph.sinks import Sink
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.pyflink._graph.watermarks import WatermarkStrategy
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import Function, ReduceFunction
from pyflinklike.types import TypeInformation


@attrs.frozen(kw_only=True)
class Node:
    """One step.

    Args:
        id: The number of the node, from 1, greater than the numbers of its inputs.
        name: The name that is shown: the program's, or else PyFlink's.
        inputs: The numbers of the nodes whose elements it gets, in order.  A number may occur twice.
        type_info: The type of the elements that it yields; for a sink, of the elements that it
            gets.
        uid: The name that the program gives to its state, or None.
        parallelism: The number of instances that was asked for; None leaves it to the job.
        max_parallelism: The number of key groups that was asked for; None leaves it to the job.
        description: The program's own words for it, or None.
    """

    id: int
    name: str
    inputs: tuple[int, ...] = ()
    type_info: TypeInformation
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    description: str | None = None


@attrs.frozen(kw_only=True)
class FromSource(Node):
    """Elements come in.

    Args:
        source: The source that yields the elements.
        strategy: The rule for watermarks; its assigner, if it has one, sets the times of elements.
    """

    source: Source
    strategy: WatermarkStrategy = attrs.field(factory=WatermarkStrategy)


# Without state


@attrs.frozen(kw_only=True)
class Stateless(Node):
    """A function of one element, which needs no other one; elements keep order and time.

    Args:
        function: The user's function, of the class that the node's name says.
    """

    function: Function


@attrs.frozen(kw_only=True)
class Map(Stateless):
    """A `MapFunction`: one output for each element, None included."""


@attrs.frozen(kw_only=True)
class FlatMap(Stateless):
    """A `FlatMapFunction`: any number of outputs; None is no output."""


@attrs.frozen(kw_only=True)
class Filter(Stateless):
    """A `FilterFunction`: the element stays or goes."""


@attrs.frozen(kw_only=True)
class Process(Stateless):
    """A `ProcessFunction`: any number of outputs, also to side outputs."""


@attrs.frozen(kw_only=True)
class AsyncWait(Stateless):
    """An `AsyncFunction`: a list of outputs for each element, many of them waited for at a time.

    Args:
        timeout: How long one element may take with all its retries, in ms; 0 is no limit.
        capacity: How many elements may be waited for at a time.
        is_ordered: True keeps outputs in the order of their elements.
        retry: An `AsyncRetryStrategy`, or None for no retries.
    """

    timeout: int
    capacity: int
    is_ordered: bool
    retry: Any = None


@attrs.frozen(kw_only=True)
class AssignTimestamps(Node):
    """Elements get other event times, and other watermarks follow from here on.

    Args:
        strategy: The rule for times and watermarks.
    """

    strategy: WatermarkStrategy


# Routing


class Partitioning(Enum):
    """The distribution of elements over the instances of the next operator; names as in plans."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"
    HASH = "HASH"


@attrs.frozen(kw_only=True)
class KeyBy(Node):
    """Elements get a key.  A node that takes no keys gets the elements alone.

    Args:
        selector: A `KeySelector`, which has `open` and `close`; called once for each element, by
            the instance that sends it.
        key_type: The type of the keys; keys of the pickled type are equal if their pickles are.
    """

    selector: Any
    key_type: TypeInformation


@attrs.frozen(kw_only=True)
class Partition(Node):
    """A rule for the instance that gets an element; `BROADCAST` gives each instance a copy.

    Args:
        how: The rule of distribution.
        partitioner: For `CUSTOM`: called with a key and the number of instances, returns the
            instance.
        selector: For `CUSTOM`: returns the key of an element.
    """

    how: Partitioning
    partitioner: Callable[[Any, int], int] | None = None
    selector: Callable[[Any], Any] | None = None

    @property
    def is_seen(self) -> bool:
        """True if functions can see the effect: all instances get copies, or the program chooses one."""
        return self.how in (Partitioning.BROADCAST, Partitioning.CUSTOM)


@attrs.frozen(kw_only=True)
class Union(Node):
    """The elements of all inputs, in any order between them; an input named twice counts twice."""


@attrs.frozen(kw_only=True)
class SideOutput(Node):
    """The elements that its input, an operator, put out with a tag.

    Args:
        tag: The tag of the output; only its id matters.
    """

    tag: OutputTag


# With state


@attrs.frozen(kw_only=True)
class Keyed(Node):
    """A function of keyed elements.  Its input is a `KeyBy`.

    An output for an element has the time of the element, and an output of a timer the time of the timer.  An output of
    a window has the window's `max_timestamp()`; `WindowOperator.collecting` can return it.

    Args:
        function: A function with one input: a `KeyedProcessFunction` (windows are one:
            `WindowOperator`), or a map, flat_map or filter function with state of keys.
    """

    function: Function


@attrs.frozen(kw_only=True)
class KeyedFold(Node):
    """The fold of the elements of each key.  Its input is a `KeyBy`.

    In streaming mode every element yields the fold so far; in batch mode each key yields its fold
    once.

    Args:
        function: Folds two elements, or a fold and an element.
    """

    function: ReduceFunction[Any]


@attrs.frozen(kw_only=True)
class TwoInputs(Node):
    """A function of two inputs; both may be the same node.

    Args:
        function: A `KeyedCoProcessFunction`, `CoProcessFunction`, `CoMapFunction` or
            `CoFlatMapFunction`.
        is_keyed: True if both inputs are `KeyBy` nodes of one key type.
    """

    function: Function
    is_keyed: bool


@attrs.frozen(kw_only=True)
class WithBroadcast(Node):
    """A function whose second input is broadcast.

    Args:
        function: A `BroadcastProcessFunction`, or a `KeyedBroadcastProcessFunction` if the first
            input is a `KeyBy`.
        states: The descriptors of the broadcast states.
    """

    function: Function
    states: tuple[MapStateDescriptor[Any, Any], ...]


# Out


@attrs.frozen(kw_only=True)
class ToSink(Node):
    """Elements go out.

    Args:
        sink: The sink that takes the elements.
    """

    sink: Sink
