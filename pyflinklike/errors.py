# SPDX-License-Identifier: Apache-2.0
"""The exceptions of pyflinklike, told apart by whose fault it is.

Everything the package raises on purpose is a `PyflinklikeError`.  Its children
name the culprit, because that decides who has to act:

* `DeclarationError`: what the program declares (descriptors, types, settings)
  contradicts itself or the rules.  Raised when it is declared, not when used.
* `StateAccessError`: state or timers were touched where there is no current key.
* `StateValueError`: a value does not fit the type its state was declared with.
* `UserFunctionError`: the user's own code raised; the cause is chained.
* `OutputError`: the user's code yielded something that does not fit the output type.
* `IncompatibleStateError`, `CorruptStateError`: what was restored cannot be used.
* `StateStoreError` and its children: a store of `pyflinklike.stores` was used wrongly.
* `HostError`: Spark refused, or is not set up for what is asked of it.
* `BrokerError` and its children: a Kafka broker is away, refused, or has lost what was asked for.

A message is one sentence of rule, what was got, and the remedy.
"""

from __future__ import annotations

import sys

__all__ = [
    "BrokerError",
    "CorruptStateError",
    "CursorClosedError",
    "DataLossError",
    "DeclarationError",
    "DeclarationTypeError",
    "DeclarationValueError",
    "DeliveryError",
    "HostError",
    "IncompatibleStateError",
    "KeyDecodeError",
    "LocalStateError",
    "NullKeyError",
    "OrderKeyError",
    "OutputError",
    "PyflinklikeError",
    "QueueOverflowError",
    "RefusedNameError",
    "RequirementError",
    "ScanDisabledError",
    "StaleStateError",
    "StateAccessError",
    "StateStoreError",
    "StateValueError",
    "StoreClosedError",
    "StoreNotInitializedError",
    "StoreValueError",
    "UnknownBatchError",
    "UnknownStateError",
    "UnknownStoreError",
    "UpsertError",
    "UpsertStateError",
    "UserFunctionError",
    "ValueDecodeError",
]


class PyflinklikeError(Exception):
    """Base of every error that pyflinklike raises on purpose."""

    if sys.version_info < (3, 11):

        def add_note(self, note: str, /) -> None:
            """Keep a note, as every exception does from Python 3.11 on; Python 3.10 shows none."""
            self.__notes__ = [*getattr(self, "__notes__", ()), note]


class DeclarationError(PyflinklikeError):
    """A descriptor, type, function or setting is declared wrongly."""


class DeclarationTypeError(DeclarationError, TypeError):
    """A declaration got an argument of the wrong kind, as PyFlink's TypeError."""


class DeclarationValueError(DeclarationError, ValueError):
    """A declaration got a value out of its range, as PyFlink's ValueError."""


class RefusedNameError(DeclarationError, AttributeError):
    """A name of PyFlink was used that cannot be had here; the message says what does the same."""


class StateAccessError(PyflinklikeError):
    """State or timers were touched outside a keyed call."""


class StateValueError(PyflinklikeError, TypeError):
    """A key or value does not fit its declared type; the state is unchanged."""


class UserFunctionError(PyflinklikeError):
    """The user's function raised; the message names the line, `__cause__` is what it raised."""


class OutputError(UserFunctionError):
    """A row that the user's function yielded does not fit the output type."""


class IncompatibleStateError(PyflinklikeError):
    """Restored state was written under a declaration this program contradicts."""


class CorruptStateError(PyflinklikeError):
    """Restored bytes are damaged or of an unknown format version."""


class HostError(PyflinklikeError):
    """Spark refuses what is asked of it; the message names the setting to change."""


class RequirementError(HostError, ImportError):
    """A package that Spark needs is missing, or of a version that does not go with it."""


class LocalStateError(HostError):
    """The working state on a worker's disk cannot be read; durable state is not affected.

    A backend raises it once it has let go of that state; the runtime reads the log instead.
    """


class BrokerError(PyflinklikeError):
    """A Kafka broker cannot be reached, or refuses what is asked of it."""


class DataLossError(BrokerError):
    """Records that were to be read are no longer in their topic."""


class DeliveryError(BrokerError):
    """A record that was to be written did not arrive in its topic, or may not have."""


class StateStoreError(PyflinklikeError):
    """A store, or a cursor over one, was used in a way it does not allow."""


class StoreNotInitializedError(StateStoreError):
    """A store was used that no function got from `get_store`."""


class StoreClosedError(StateStoreError):
    """A store was used after it was closed; only its properties can still be read."""


class CursorClosedError(StateStoreError, RuntimeError):
    """A cursor was read after it was closed, or after the call in which it was opened."""


class StoreValueError(StateStoreError, ValueError):
    """A store got a time or a bound out of its range; the store is unchanged."""


class UnknownStoreError(StateStoreError, KeyError):
    """No store of that name was declared."""

    __str__ = Exception.__str__  # a KeyError shows the repr of its message


class ScanDisabledError(StateStoreError):
    """A query of a view or a replica would read all of it, which it was not allowed to."""


class StaleStateError(StateStoreError, TimeoutError):
    """A replica of a query's state has not come as far as was asked for."""


class QueueOverflowError(StateStoreError):
    """A subscriber to a view fell behind and had asked for an error in that case."""


class UnknownBatchError(StateStoreError, KeyError):
    """A view or a checkpoint never had that batch, or no longer keeps what it was after it."""

    __str__ = Exception.__str__


class UnknownStateError(PyflinklikeError, KeyError):
    """No state, store or operator of that name is in the checkpoint or savepoint."""

    __str__ = Exception.__str__


class UpsertError(StateStoreError):
    """An upsert could not be applied; it is kept as a value, and raised where that is read.

    It is a value among values: equal to one of the same class and message.
    """

    def __eq__(self, other: object) -> bool:
        """Return whether the other is an error of this class that says the same."""
        return type(other) is type(self) and str(other) == str(self)

    def __hash__(self) -> int:
        """Return the same number for equal errors."""
        return hash((type(self), str(self)))


class KeyDecodeError(UpsertError, ValueError):
    """The key of an upsert cannot be decoded."""


class ValueDecodeError(UpsertError, ValueError):
    """The value of an upsert cannot be decoded."""


class NullKeyError(UpsertError):
    """An upsert has no key."""


class OrderKeyError(UpsertError):
    """The order key of an upsert is missing, or cannot be compared with the one before it."""


class UpsertStateError(StateStoreError, RuntimeError):
    """An `UpsertState` was read before its collection was whole, or completed twice."""
