# SPDX-License-Identifier: Apache-2.0
"""A store by itself, for unit tests of code that reads or writes one.

It is the same store that functions get, but over tables in memory and under one constant key.  Its
changes are not logged, and its contents end with it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pyflinklike._clock import Clock, DurationLike, to_milliseconds
from pyflinklike._type_vars import K, V
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.functions.contexts import StoreDeclaration
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.stores.state_store import StateStore, StoreContext
from pyflinklike.stores.window_store import WindowStore, WindowStoreDescriptor
from pyflinklike.types import TypeInformation, Types

S = TypeVar("S", bound=StateStore)


def open_in_memory(descriptor: StoreDeclaration[S], clock: Clock | None = None) -> S:
    """Open a store by itself.

    Args:
        descriptor: The descriptor of a store of any kind.
        clock: The clock of the store.  Assign the time of the current element to its `timestamp`,
            and the watermark to its `watermark`.  None is a clock that stands still.
    """
    store = descriptor.new_store()
    store.init(_context(clock or Clock()))
    return store


def _context(clock: Clock) -> StoreContext:
    return StoreContext(
        backend=HashMapStateBackend().create_keyed_state_backend(CurrentKey("alone"), "alone"),
        clock=clock,
        key_type=Types.STRING(),
        application="alone",
        on_table=lambda _: None,
        emit=lambda *_: None,
        wants=lambda _: False,
        timestamp=lambda: clock.timestamp,
        position=lambda: {0: 0},
    )


class InMemoryWindowStore(WindowStore[K, V]):
    """A window store that needs no function, host or backend.

    Args:
        window_size: The length of a window: a `Time`, `Duration`, `timedelta` or an int of ms.
        key_type: The type of the keys; None for str.
        value_type: The type of the values; None for anything that pickles.
        **options: The other fields of `WindowStoreDescriptor`.
    """

    def __init__(
        self,
        window_size: DurationLike,
        key_type: TypeInformation[K] | None = None,
        value_type: TypeInformation[V] | None = None,
        **options: Any,
    ) -> None:
        descriptor = WindowStoreDescriptor(
            "in-memory",
            key_type or Types.STRING(),
            value_type or Types.PICKLED_BYTE_ARRAY(),
            window_size=to_milliseconds(window_size, "window_size"),
            **options,
        )
        super().__init__(descriptor)
        self.init(_context(Clock()))
