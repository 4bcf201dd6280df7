# SPDX-License-Identifier: Apache-2.0
"""The base of streams and sinks, which stand for a node of the graph, and the checks of their arguments."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import attrs

from pyflinklike._checks import is_int
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import T
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.code_search import warn_of_slips
from pyflinklike.pyflink._graph.functions import copy_function
from pyflinklike.pyflink._graph.job_run import JobRun
from pyflinklike.pyflink._graph.nodes import Node
from pyflinklike.pyflink.common.stored_settings import SlotSharingGroup
from pyflinklike.pyflink.datastream.program import Program
from pyflinklike.state.fold_functions import check_methods
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.pickled_type import Pickled, PickledByteArrayTypeInfo

__all__ = [
    "CloseableIterator",
    "DataStreamSink",
    "ObjectKeyTypeInfo",
    "OutputType",
    "StreamNode",
    "check_function",
    "output_type_of",
]


OutputType = TypeInformation | list[TypeInformation] | None

D = TypeVar("D", bound="StreamNode")

_HASH = re.compile("[0-9A-Fa-f]{32}")


class StreamNode(WithoutJava):
    """A node of the graph; its settings may change until a job runs.

    Args:
        program: The program that has the graph.
        number: The number of the node in the graph.
    """

    def __init__(self, program: Program, number: int) -> None:
        self._program = program
        self._number = number

    @property
    def _node(self) -> Node:
        return self._program.builder[self._number]

    def _set(self: D, **settings: Any) -> D:
        self._program.builder.change(self._number, **settings)
        return self

    def name(self: D, name: str) -> D:
        """Name the operator, for plans and messages.

        Args:
            name: Any text, which other operators may have as well.
        """
        return self._set(name=name)

    def uid(self: D, uid: str) -> D:
        """Name the state of the operator, so that a changed program finds it again.

        Args:
            uid: A text that no other operator of the job has.
        """
        return self._set(uid=uid)

    def set_uid_hash(self: D, uid_hash: str) -> D:
        """Warn that the hash has no effect: Flink finds state in its own checkpoints by it.

        Here an operator finds its state by its `uid`, or by its position in the program.

        Args:
            uid_hash: The 32 hexadecimal digits by which Flink identifies an operator.

        Raises:
            DeclarationValueError: The hash has another form.
        """
        if not isinstance(uid_hash, str) or not _HASH.fullmatch(uid_hash):
            msg = (
                "Node hash must be a 32 character String that describes a hex code, got "
                f"{short_repr(uid_hash)}; to name the state of an operator call uid"
            )
            raise DeclarationValueError(msg)
        warnings.warn(
            f"set_uid_hash has no effect, got {uid_hash!r}: savepoints of Flink cannot be read, and "
            "uid names the state here",
            stacklevel=2,
        )
        return self._set()

    def set_description(self: D, description: str) -> D:
        """Describe the operator, for plans.

        Args:
            description: Any text, of any length.
        """
        return self._set(description=description)

    def set_parallelism(self: D, parallelism: int) -> D:
        """Set the number of instances of the operator.

        Args:
            parallelism: The number, at least 1.

        Raises:
            DeclarationValueError: The number is less than 1.
        """
        if not is_int(parallelism) or parallelism < 1:
            msg = (
                f"The parallelism of an operator must be at least 1, got {short_repr(parallelism)}"
            )
            raise DeclarationValueError(msg)
        return self._set(parallelism=parallelism)

    def disable_chaining(self: D) -> D:
        """Return the operator unchanged: the host decides how it runs operators together."""
        return self

    def slot_sharing_group(self: D, slot_sharing_group: str | SlotSharingGroup) -> D:
        """Accept a slot sharing group without effect: the host decides where operators run.

        Args:
            slot_sharing_group: The group or its name.

        Raises:
            DeclarationTypeError: It is neither a name nor a group.
        """
        if not isinstance(slot_sharing_group, (str, SlotSharingGroup)):
            msg = (
                "slot_sharing_group takes a name or a SlotSharingGroup, got "
                f"{short_repr(slot_sharing_group)}; give for example 'default'"
            )
            raise DeclarationTypeError(msg)
        return self


class DataStreamSink(StreamNode):
    """A sink in the graph, as `pyflink.datastream.DataStreamSink`."""


class CloseableIterator(Generic[T]):
    """An iterator over the elements that a running job collects; use it in a `with` to end the job.

    Args:
        run: The run of the job.
        elements: The elements, as the job collects them.
    """

    def __init__(self, run: JobRun, elements: Iterator[T]) -> None:
        self._run, self._elements = run, elements

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        return next(self._elements)

    next = __next__

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the job if it has not ended."""
        self._run.cancel()


def check_function(function: Any, kinds: tuple[type, ...], message: str) -> Any:
    """Check a function, and return a copy that later changes of the program do not reach.

    Args:
        function: The argument that the program gave.
        kinds: The classes that are allowed.
        message: The beginning of the error's message.

    Raises:
        DeclarationTypeError: The function has another class, or cannot be pickled.
    """
    if not isinstance(function, kinds):
        remedy = instance_of(kinds[0], function, f"subclass {kinds[0].__name__}")
        msg = f"{message}, got {short_repr(function)}; {remedy}"
        raise DeclarationTypeError(msg)
    warn_of_slips(check_methods(function))
    return copy_function(function)


def output_type_of(output_type: OutputType) -> TypeInformation:
    """Return the type that an argument declares: a list stands for a row, None for pickled objects.

    Raises:
        DeclarationTypeError: The argument is something else.
    """
    if output_type is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(output_type, list):
        from pyflinklike.pyflink.common.types import Types as RowTypes

        return RowTypes.ROW(output_type)
    given: Any = output_type
    if not isinstance(given, TypeInformation):
        remedy = instance_of(TypeInformation, given, "give for example Types.STRING()")
        msg = (
            f"output_type must be None, list or TypeInformation, got {short_repr(given)}; {remedy}"
        )
        raise DeclarationTypeError(msg)
    return given


# The base refuses None, since a key of a map is never None.  A stream's key may be None, as its pickle.
_NONE: Final = Pickled(pickle.dumps(None, protocol=5))


@attrs.frozen(repr=False)
class ObjectKeyTypeInfo(PickledByteArrayTypeInfo):
    """The type of keys without a declared type: any objects that pickle can write.

    Keys are equal if their pickles are: 1, 1.0 and True are three keys, and None is one.
    """

    def freeze_key(self, value: Any) -> Any:
        """Return a str, int or bytes itself, and the pickle of anything else."""
        return _NONE if value is None else super().freeze_key(value)
