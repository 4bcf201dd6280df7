# SPDX-License-Identifier: Apache-2.0
"""State descriptors, by which a function declares the states that it wants.

A function may declare the same name twice.  If the two agree in kind, types and TTL, they give the
same state; if not, we refuse the second, while Flink silently keeps the first.  The function that
folds is not compared: as in Flink, the first one stays.

Descriptors compare by value.  But `enable_time_to_live` changes the descriptor and returns None, as
in PyFlink.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, ClassVar, Generic

import attrs

from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import ACC, IN, OUT, K, T, T_co, V
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.fold_functions import (
    AggregateFunction,
    ReduceFunction,
    as_reduce_function,
    check_methods,
)
from pyflinklike.state.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyflinklike.state.table import RESERVED_PREFIX, Shape, Table, TableSpec
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]


class StateDescriptor(Generic[T_co]):
    """Name, type and TTL of a state; generic in the state it declares.

    Args:
        name: Name of the state, unique within the function.
        type_info: Type of the stored value; for a list or map, of the whole list or map.

    Raises:
        DeclarationValueError: The name is None or empty.
        DeclarationTypeError: An argument is of the wrong kind.
    """

    kind: ClassVar[str]
    shape: ClassVar[Shape]

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if name is None or name == "":
            msg = f"a state needs a name that is not None or empty, got {short_repr(name)}; name it"
            raise DeclarationValueError(msg)
        if not isinstance(name, str):
            msg = f"the name of a state must be a str, got {short_repr(name)}; name it"
            raise DeclarationTypeError(msg)
        if name.startswith(RESERVED_PREFIX):
            msg = (
                f"names that begin with {RESERVED_PREFIX!r} belong to the runtime, got {name!r}; "
                "choose another name"
            )
            raise DeclarationValueError(msg)
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig | None) -> None:
        """Let entries of the state expire; a disabled config or None turns it off again.

        Call it before `open` obtains the state; `open` refuses a later change when it ends.

        Raises:
            DeclarationTypeError: The argument is not a `StateTtlConfig`.
        """
        if ttl_config is not None and not isinstance(ttl_config, StateTtlConfig):
            msg = (
                f"state {self.name!r}: a TTL must be a StateTtlConfig, got {short_repr(ttl_config)}; "
                "build one with StateTtlConfig.new_builder(...).build()"
            )
            raise DeclarationTypeError(msg)
        enabled = ttl_config is not None and ttl_config.is_enabled()
        self._ttl_config = ttl_config if enabled else None

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The TTL, or None if entries do not expire."""
        return self._ttl_config

    def _declaration(self) -> tuple[Any, ...]:
        return (type(self), self.name, self.type_info, self._ttl_config)

    def _identity(self) -> tuple[Any, ...]:
        return self._declaration()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateDescriptor):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        # Leave out the TTL, which `enable_time_to_live` may change later.
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        ttl = "" if self._ttl_config is None else f", ttl={self._ttl_config!r}"
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r}{ttl})"

    def _type_to_store(self) -> TypeInformation:
        return self.type_info

    def spec(self) -> TableSpec:
        """Return the declaration of its table, for the backend and the log."""
        return TableSpec(
            self.name,
            self.shape,
            self.kind,
            value_type=self._type_to_store(),
            paired=self._ttl_config is not None,
            settings=() if self._ttl_config is None else (self._ttl_config.clock,),
        )

    def state(self, table: Table) -> T_co:
        """Make the state over a table made for `spec`."""
        raise NotImplementedError


class ValueStateDescriptor(StateDescriptor[ValueState[T]]):
    """The declaration of a `ValueState`.

    Example:
        ```python
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("count", Types.LONG())
            self.count = runtime_context.get_state(descriptor)
        ```
    """

    kind = "value"
    shape = Shape.SINGLE

    def __init__(self, name: str, value_type_info: TypeInformation[T]) -> None:
        super().__init__(name, _check_type(name, value_type_info))

    def state(self, table: Table) -> ValueState[T]:
        """Make the state over a table made for `spec`."""
        return ValueState(self.name, table, self.type_info)


class ListStateDescriptor(StateDescriptor[ListState[T]]):
    """The declaration of a `ListState`; its `type_info` is the list's, as in PyFlink.

    Example:
        ```python
        def open(self, runtime_context):
            self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.STRING()))

        def process_element(self, value, ctx):
            self.last.add(value.page)
            yield ctx.get_current_key(), list(self.last)
        ```
    """

    kind = "list"
    shape = Shape.LIST

    def __init__(self, name: str, elem_type_info: TypeInformation[T]) -> None:
        self._elem_type_info = _check_type(name, elem_type_info)
        super().__init__(name, Types.LIST(elem_type_info))

    def _type_to_store(self) -> TypeInformation:
        return self._elem_type_info

    def state(self, table: Table) -> ListState[T]:
        """Make the state over a table made for `spec`."""
        return ListState(self.name, table, self._elem_type_info)


class MapStateDescriptor(StateDescriptor[MapState[K, V]]):
    """The declaration of a `MapState`; its `type_info` is the map's, as in PyFlink.

    Example:
        ```python
        def open(self, runtime_context):
            descriptor = MapStateDescriptor("views", Types.STRING(), Types.LONG())
            self.views = runtime_context.get_map_state(descriptor)

        def process_element(self, value, ctx):
            self.views[value.page] = (self.views.get(value.page) or 0) + 1
        ```
    """

    kind = "map"
    shape = Shape.MAP

    def __init__(
        self, name: str, key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> None:
        self._key_type_info = _check_type(name, key_type_info)
        self._value_type_info = _check_type(name, value_type_info)
        super().__init__(name, Types.MAP(key_type_info, value_type_info))

    def spec(self) -> TableSpec:
        """Return the declaration of its table, for the backend and the log."""
        return attrs.evolve(
            super().spec(), value_type=self._value_type_info, user_key_type=self._key_type_info
        )

    def state(self, table: Table) -> MapState[K, V]:
        """Make the state over a table made for `spec`."""
        return MapState(self.name, table, self._key_type_info, self._value_type_info)


class ReducingStateDescriptor(StateDescriptor[ReducingState[T]]):
    """The declaration of a `ReducingState`.

    Args:
        name: Name of the state, unique within the function.
        reduce_function: A `ReduceFunction` or a callable of two values.
        type_info: Type of the values.
    """

    kind = "reducing"
    shape = Shape.SINGLE

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        type_info: TypeInformation[T],
    ) -> None:
        self._declared_function = reduce_function
        self._reduce_function = as_reduce_function(reduce_function)
        super().__init__(name, _check_type(name, type_info))

    def get_reduce_function(self) -> ReduceFunction[T]:
        """Return the function, wrapped if a callable was given."""
        return self._reduce_function

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), _function_identity(self._declared_function))

    def state(self, table: Table) -> ReducingState[T]:
        """Make the state over a table made for `spec`."""
        declared = self._declared_function
        # Use a callable itself, because its wrapper would cost one more call for each element.
        reduce = declared.reduce if isinstance(declared, ReduceFunction) else declared
        return ReducingState(self.name, table, self.type_info, reduce)


class AggregatingStateDescriptor(StateDescriptor[AggregatingState[IN, OUT]], Generic[IN, ACC, OUT]):
    """The declaration of an `AggregatingState`.

    Args:
        name: Name of the state, unique within the function.
        agg_function: The function that makes, fills and merges accumulators.
        state_type_info: Type of the accumulator.
    """

    kind = "aggregating"
    shape = Shape.SINGLE

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction[IN, ACC, OUT],
        state_type_info: TypeInformation[ACC],
    ) -> None:
        if not isinstance(agg_function, AggregateFunction):
            remedy = instance_of(AggregateFunction, agg_function, "subclass AggregateFunction")
            msg = (
                "The input must be a pyflinklike AggregateFunction! "
                f"got {short_repr(agg_function)}; {remedy}"
            )
            raise DeclarationTypeError(msg)
        self._agg_function = check_methods(agg_function)
        super().__init__(name, _check_type(name, state_type_info))

    def get_agg_function(self) -> AggregateFunction[IN, ACC, OUT]:
        """Return the function."""
        return self._agg_function

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), _function_identity(self._agg_function))

    def state(self, table: Table) -> AggregatingState[IN, OUT]:
        """Make the state over a table made for `spec`."""
        return AggregatingState(self.name, table, self.type_info, self._agg_function)


def _check_type(name: str, type_info: TypeInformation) -> TypeInformation:
    if not isinstance(type_info, TypeInformation):
        remedy = instance_of(TypeInformation, type_info, "use for example Types.LONG(), with ()")
        msg = f"state {name!r}: a type must be a TypeInformation, got {short_repr(type_info)}; {remedy}"
        raise DeclarationTypeError(msg)
    return type_info


def _function_identity(function: Any) -> Any:
    # A lambda in open() is a new object at each call, but has the same code.
    if isinstance(function, BuiltinFunctionType):
        return function
    return getattr(function, "__code__", type(function))
