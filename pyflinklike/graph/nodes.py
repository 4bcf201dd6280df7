# SPDX-License-Identifier: Apache-2.0
"""The nodes of a graph: what happens to elements, one frozen value for each step.

A node has a number, and names its inputs by theirs, which are smaller: a graph has no circle, and
the order of the numbers is one in which every node comes after its inputs.  Settings that a
program may still change (its name, its uid) make another value with the same number, so nobody
holds on to a node: one holds its number.

`KeyBy`, `Partition`, `Union` and `SideOutput` only say which elements go where.  What a node gives is of `type_info`.

| node | inputs | function, and what the runtime has for it |
|---|---|---|
| `FromSource` | | |
| `Map` `FlatMap` `Filter` `Process` `AsyncWait` `AssignTimestamps` | 1 | without state |
| `KeyBy` `Partition` `SideOutput` | 1 | |
| `Union` | 1 or more | |
| `Keyed` | a `KeyBy` | with state and timers of keys |
| `Fold` | a `KeyBy` | `pyflinklike.folds.Fold`, running or final by the mode |
| `TwoInputs` | 2 | keyed if both are `KeyBy`, else without state |
| `WithBroadcast` | 2, the second broadcast | keyed if the first is `KeyBy` |
| `ToSink` | 1 | |
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.functions import Function, ReduceFunction
from pyflinklike.graph.sinks import Sink
from pyflinklike.graph.sources import Source
from pyflinklike.graph.watermarks import WatermarkStrategy
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.types import TypeInformation

__all__ = [
    "AssignTimestamps",
    "AsyncWait",
    "Filter",
    "FlatMap",
    "Fold",
    "FromSource",
    "KeyBy",
    "Keyed",
    "Map",
    "Node",
    "Partition",
    "Partitioning",
    "Process",
    "SideOutput",
    "Stateless",
    "ToSink",
    "TwoInputs",
    "Union",
    "WithBroadcast",
]


@attrs.frozen(kw_only=True)
class Node:
    """One step.

    Args:
        id: Its number, from 1, greater than those of its inputs.
        name: What it is called where it is shown; PyFlink's word where the program gives none.
        inputs: The numbers of the nodes whose elements it gets, in order.  One may be there twice.
        type_info: Of the elements that it gives; for a sink of those that it gets.
        uid: Names its state, or None.
        parallelism: How many instances it was asked to have; None leaves that to the job.
        max_parallelism: How many key groups it was asked to have; None leaves that to the job.
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
        source: Gives them.
        strategy: Says what watermarks follow; its assigner, if it has one, tells their times.
    """

    source: Source
    strategy: WatermarkStrategy = attrs.field(factory=WatermarkStrategy)


# Without state


@attrs.frozen(kw_only=True)
class Stateless(Node):
    """A function of one element, which needs no other one; elements keep order and time.

    Args:
        function: The user's.
    """

    function: Function


@attrs.frozen(kw_only=True)
class Map(Stateless):
    """A `MapFunction`: one output for each element, None included."""


@attrs.frozen(kw_only=True)
class FlatMap(Stateless):
    """A `FlatMapFunction`: any number of outputs; None is none."""


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
        timeout: How long one element may take with all its retries, in ms; 0 is for ever.
        capacity: How many elements may be waited for at a time.
        is_ordered: Whether outputs keep the order of their elements.
        retry: When to try again, an `AsyncRetryStrategy`, or None for never.
    """

    timeout: int
    capacity: int
    is_ordered: bool
    retry: Any = None


@attrs.frozen(kw_only=True)
class AssignTimestamps(Node):
    """Elements get other event times, and other watermarks follow from here on.

    Args:
        strategy: Says which.
    """

    strategy: WatermarkStrategy


# Which elements go where


class Partitioning(Enum):
    """How elements are spread over the instances of the next operator; names as in plans."""

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
        selector: Tells the key of an element; called once for each, where the element comes from.
            A `KeySelector`, which has `open` and `close`.
        key_type: Of the keys; keys of the pickled type are equal if their pickles are.
    """

    selector: Any
    key_type: TypeInformation


@attrs.frozen(kw_only=True)
class Partition(Node):
    """A hint which instance gets an element; but `BROADCAST` gives each instance a copy.

    Args:
        how: By which rule.
        partitioner: For `CUSTOM`: called with a key and the number of instances, tells which.
        selector: For `CUSTOM`: tells the key of an element.
    """

    how: Partitioning
    partitioner: Callable[[Any, int], int] | None = None
    selector: Callable[[Any], Any] | None = None

    @property
    def is_seen(self) -> bool:
        """Whether functions see it: each instance gets a copy, or the program tells which gets what."""
        return self.how in (Partitioning.BROADCAST, Partitioning.CUSTOM)


@attrs.frozen(kw_only=True)
class Union(Node):
    """The elements of all inputs, in no order between them; an input named twice counts twice."""


@attrs.frozen(kw_only=True)
class SideOutput(Node):
    """The elements that its input, an operator, put out with a tag.

    Args:
        tag: Whose id counts.
    """

    tag: OutputTag


# With state


@attrs.frozen(kw_only=True)
class Keyed(Node):
    """A function of keyed elements.  Its input is a `KeyBy`.

    What it gives for an element has that one's time, what it gives in a timer the timer's; what a
    window gives has the window's `max_timestamp()`, which `WindowOperator.collecting` can tell.

    Args:
        function: Of any class that `runtime.callers` knows for one input: a `KeyedProcessFunction`
            (windows are one: `pyflinklike.windows.WindowOperator`), or a map, flat_map or filter
            function with state of keys.
    """

    function: Function


@attrs.frozen(kw_only=True)
class Fold(Node):
    """The fold of the elements of each key.  Its input is a `KeyBy`.

    In streaming mode every element gives out the fold so far, in batch mode each key gives out its
    fold once: `pyflinklike.folds.Fold(function, type_info, running=...)`.

    Args:
        function: Folds two elements, or a fold and an element.
    """

    function: ReduceFunction[Any]


@attrs.frozen(kw_only=True)
class TwoInputs(Node):
    """A function of two inputs, for `runtime.two_inputs`; one of them may be there twice.

    Args:
        function: A `KeyedCoProcessFunction`, `CoProcessFunction`, `CoMapFunction` or
            `CoFlatMapFunction`.
        is_keyed: Whether both inputs are `KeyBy` nodes, of one key type.
    """

    function: Function
    is_keyed: bool


@attrs.frozen(kw_only=True)
class WithBroadcast(Node):
    """A function whose second input is broadcast.

    Args:
        function: A `BroadcastProcessFunction`, or a `KeyedBroadcastProcessFunction` where the first
            input is a `KeyBy`.
        states: The broadcast states.
    """

    function: Function
    states: tuple[MapStateDescriptor[Any, Any], ...]


# Out


@attrs.frozen(kw_only=True)
class ToSink(Node):
    """Elements go out.

    Args:
        sink: Takes them.
    """

    sink: Sink
