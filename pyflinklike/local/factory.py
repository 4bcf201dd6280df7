# SPDX-License-Identifier: Apache-2.0
"""Which station runs a node that calls a user's function."""

from __future__ import annotations

from typing import Any

from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.errors import HostError
from pyflinklike.folds.function import Fold as FoldFunction
from pyflinklike.graph.captured import own_copy
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import (
    AssignTimestamps,
    AsyncWait,
    Filter,
    FlatMap,
    Fold,
    KeyBy,
    Keyed,
    Map,
    Node,
    Process,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.local.entrances import TimestampStation
from pyflinklike.local.operators import (
    BatchStation,
    BroadcastBatchStation,
    BroadcastStation,
    MapStation,
    OperatorStation,
    TwoInputBatchStation,
    TwoInputStation,
)
from pyflinklike.local.stations import Exit, Station
from pyflinklike.local.waiting import WaitingStation
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.windows.operator import WindowOperator

__all__ = ["function_of", "operator_station"]


def operator_station(node: Node, out: Exit, task: TaskInfo, job: Job) -> Station:
    """The instance of a node.

    Args:
        node: That calls a user's function.
        out: Where what it gives goes.
        task: Which instance it is.
        job: Has the settings.

    Raises:
        HostError: The local runner has nothing for a node of this kind.
    """
    if isinstance(node, AssignTimestamps):
        return TimestampStation(out, node.strategy)
    backend = job.settings.state_backend or HashMapStateBackend()
    if isinstance(node, AsyncWait):
        keys = PickledByteArrayTypeInfo()
        return WaitingStation(out, node, own_copy(node.function), task, keys, backend)
    kind, key_type, has_keys = _kind_of(node, job)
    states = node.states if isinstance(node, WithBroadcast) else ()
    function = function_of(node, is_batch=job.settings.is_batch)
    return kind(out, function, task, key_type, backend, has_keys=has_keys, states=states)


def _kind_of(node: Node, job: Job) -> tuple[type[OperatorStation], TypeInformation, bool]:
    """The class of its instances, the type of keys, and whether there are any."""
    is_batch, first = job.settings.is_batch, job.graph.nodes.get(node.inputs[0])
    keyed = isinstance(first, KeyBy)
    key_type = first.key_type if isinstance(first, KeyBy) else PickledByteArrayTypeInfo()
    if isinstance(node, (Map, FlatMap, Filter)):
        return MapStation, key_type, False
    if isinstance(node, Process):
        return OperatorStation, key_type, False
    if isinstance(node, (Keyed, Fold)):
        return (BatchStation if is_batch else OperatorStation), key_type, True
    if isinstance(node, TwoInputs):
        in_batches = is_batch and node.is_keyed
        return (TwoInputBatchStation if in_batches else TwoInputStation), key_type, node.is_keyed
    if isinstance(node, WithBroadcast):
        return (BroadcastBatchStation if is_batch else BroadcastStation), key_type, keyed
    msg = f"the local runner has nothing for {type(node).__name__}, got {node.name!r}"
    raise HostError(msg)


def function_of(node: Any, *, is_batch: bool) -> Any:
    """What the runtime is given for a node: the user's function, or a program that has it.

    Args:
        node: With a function.
        is_batch: Whether the job runs in batch mode.
    """
    function = own_copy(node.function)
    if isinstance(node, Fold):
        return FoldFunction(function, node.type_info, running=not is_batch)
    return function.timed() if isinstance(function, WindowOperator) else function
