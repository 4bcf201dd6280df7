# SPDX-License-Identifier: Apache-2.0
"""The kinds of functions: one entry for each, with its invoker, its harness and its contexts.

The class of a function decides its kind: `kind_of` goes through its base classes, the nearest
first, and takes the first entry that it finds.  A wing registers its own kind in the module that
defines the function's class, so the entry exists before any function of that kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike._runtime.assembly import (
    FunctionKind,
    NamespacedAssembly,
    OperatorDeclaration,
    WithBroadcastAssembly,
)
from pyflinklike._runtime.broadcast_invoker import BroadcastInvoker
from pyflinklike._runtime.invokers import MapInvoker, NamespacedInvoker, TwoInputInvoker
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    NamespacedFunction,
)

_KINDS: dict[type, FunctionKind] = {}
_OTHERS = FunctionKind()


def register(kind: FunctionKind, *classes: type) -> None:
    """Add the entry of a kind.

    Args:
        kind: The entry for these functions.
        classes: The base classes of the functions of this kind.
    """
    _KINDS.update(dict.fromkeys(classes, kind))


def kind_of(function: Any) -> FunctionKind:
    """Return the entry of the kind of a function."""
    bases = type(function).__mro__
    return next((_KINDS[each] for each in bases if each in _KINDS), _OTHERS)


def classes_of(wanted: Callable[[FunctionKind], bool]) -> tuple[type, ...]:
    """Return the base classes of the functions of some kinds.

    Args:
        wanted: Returns whether to include an entry.
    """
    chosen = [each for each, kind in _KINDS.items() if wanted(kind)]
    # Messages list these classes, so a class stands for its subclasses.
    return tuple(each for each in chosen if not _KINDS.keys() & set(each.__mro__[1:]))


def harness_for(inputs: str) -> str:
    """Return the name of the harness that drives functions of these inputs, for messages."""
    found = (each.harness for each in _KINDS.values() if each.inputs == inputs and each.harness)
    return next(found, "its harness")


def make_keyed_operator(declared: OperatorDeclaration) -> KeyedProcessOperator:
    """Make an operator whose function may have states, timers and stores; it is not open yet.

    Args:
        declared: The declaration of the operator.

    Raises:
        DeclarationTypeError, DeclarationValueError: The declaration is wrong; `OperatorAssembly`
            says how.
    """
    kind = kind_of(declared.function)
    return kind.assembly(declared, kind).make_operator()


# The kinds of the core

_ONE = FunctionKind(harness="KeyedProcessHarness")
register(attrs.evolve(_ONE, has_process=True), KeyedProcessFunction)
register(
    attrs.evolve(_ONE, caller=NamespacedInvoker, assembly=NamespacedAssembly), NamespacedFunction
)
register(attrs.evolve(_ONE, caller=MapInvoker), MapFunction, FlatMapFunction, FilterFunction)

_TWO = FunctionKind(inputs="two inputs", caller=TwoInputInvoker)
register(_TWO, CoProcessFunction)
register(
    attrs.evolve(_TWO, harness="KeyedTwoInputHarness"),
    KeyedCoProcessFunction,
    CoMapFunction,
    CoFlatMapFunction,
)

_BROADCAST = FunctionKind(
    inputs="a broadcast input",
    harness="BroadcastHarness",
    caller=BroadcastInvoker,
    assembly=WithBroadcastAssembly,
)
register(_BROADCAST, KeyedBroadcastProcessFunction)
register(attrs.evolve(_BROADCAST, has_keys=False), BroadcastProcessFunction)
