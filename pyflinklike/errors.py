# SPDX-License-Identifier: Apache-2.0
"""The exceptions of pyflinklike: the class of an error says who has to act.

Everything the package raises on purpose is a `PyflinklikeError`.  Its children are:

* `DeclarationError`: a declaration (a descriptor, a type, a setting) contradicts itself or the rules.
  It is raised when the program declares it, not when it is used.
* `StateAccessError`: the program touched state or timers while there was no current key.
* `StateValueError`: a value does not fit the type its state was declared with.
* `UserFunctionError`: the user's own code raised; the cause is chained.
* `OutputError`: the user's code yielded something that does not fit the output type.
* `IncompatibleStateError`, `CorruptStateError`: the restored state cannot be used.
* `StateStoreError` and its children: a store of `pyflinklike.stores` was used wrongly.
* `SparkSetupError`: Spark refused a request, or is not set up for it.
* `BrokerError` and its children: a Kafka broker is away, refused, or has lost the records.

A message says which rule was broken, what was given instead, and what to do.
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
    "SparkSetupError",
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
        # Libraries that support Python 3.10 look for notes under this name.
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
    """The program used a name of PyFlink that is missing here; the message names a replacement."""


class StateAccessError(PyflinklikeError):
    """The program touched state or timers outside a keyed call."""


class StateValueError(PyflinklikeError, TypeError):
    """A key or value does not fit its declared type; the state is unchanged."""


class UserFunctionError(PyflinklikeError):
    """The user's function raised; the message names the line, and `__cause__` is the user's error."""


class OutputError(UserFunctionError):
    """A row that the user's function yielded does not fit the output type."""


class IncompatibleStateError(PyflinklikeError):
    """The restored state was written under a declaration that contradicts this program's."""


class CorruptStateError(PyflinklikeError):
    """Restored bytes are damaged or of an unknown format version."""


class SparkSetupError(PyflinklikeError):
    """Spark refuses a request; the message names the setting to change."""


class RequirementError(SparkSetupError, ImportError):
    """A package that Spark needs is missing, or its version does not go with Spark's."""


class LocalStateError(SparkSetupError):
    """The working state on a worker's disk cannot be read; durable state is not affected.

    A backend raises it after it has dropped that state; the runtime reads the log instead.
    """


class BrokerError(PyflinklikeError):
    """A Kafka broker cannot be reached, or refuses a request."""


class DataLossError(BrokerError):
    """Records that a query still had to read are no longer in their topic."""


class DeliveryError(BrokerError):
    """A record did not arrive in its topic, or may not have arrived."""


class StateStoreError(PyflinklikeError):
    """A program used a store, or a cursor over one, in a way that it does not allow."""


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
    """A query would read all of a view or a replica, and the user has not allowed that."""


class StaleStateError(StateStoreError, TimeoutError):
    """A replica of a query's state is still older than the caller allows."""


class QueueOverflowError(StateStoreError):
    """A subscriber to a view fell behind and had asked for an error in that case."""


class UnknownBatchError(StateStoreError, KeyError):
    """A view or a checkpoint never had that batch, or no longer keeps its result."""

    __str__ = Exception.__str__


class UnknownStateError(PyflinklikeError, KeyError):
    """No state, store or operator of that name is in the checkpoint or savepoint."""

    __str__ = Exception.__str__


class UpsertError(StateStoreError):
    """An upsert could not be applied.

    The error is kept in the place of the value, and raised when somebody reads that value.  As a
    value it is equal to every error of the same class and message.
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
    """A program read an `UpsertState` before its collection was whole, or completed it twice."""
