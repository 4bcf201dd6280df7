# SPDX-License-Identifier: Apache-2.0
"""What streams of all kinds have in common: a node of the graph, its settings, and ways out.

The type of keys whose type a program does not declare: any object that pickles, None included.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar, overload

import attrs

from pyflinklike.common.execution_config import ExecutionConfig
from pyflinklike.datastream.program import Program
from pyflinklike.engine.checks import is_int
from pyflinklike.engine.graph.function_copies import captured
from pyflinklike.engine.graph.job_run import JobRun
from pyflinklike.engine.graph.nodes import Node, ToSink
from pyflinklike.engine.graph.sinks import CollectSink, PrintSink, Sink
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.engine.type_vars import T
from pyflinklike.engine.types import TypeInformation, Types
from pyflinklike.engine.types.pickled_type import Pickled, PickledByteArrayTypeInfo
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError

__all__ = [
    "CloseableIterator",
    "DataStreamSink",
    "Declared",
    "ObjectKeyTypeInfo",
    "Outlets",
    "OutputType",
    "checked_function",
    "output_type_of",
]


OutputType = TypeInformation | list[TypeInformation] | None

D = TypeVar("D", bound="Declared")

_HASH = re.compile("[0-9A-Fa-f]{32}")


class Declared:
    """A node of the graph with settings that may still change.

    Args:
        program: Whose graph.
        number: Of the node.
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
        """Name it, where jobs are shown."""
        return self._set(name=name)

    def uid(self: D, uid: str) -> D:
        """Name its state, so that it is found again when the program changes."""
        return self._set(uid=uid)

    def set_uid_hash(self: D, uid_hash: str) -> D:
        """Keep nothing, with a warning: Flink finds state of its own checkpoints by it.

        An operator keeps its name, which `uid` gives it, or its place in the program.

        Args:
            uid_hash: The 32 hexadecimal digits that Flink calls an operator.

        Raises:
            DeclarationValueError: It is something else.
        """
        if not isinstance(uid_hash, str) or not _HASH.fullmatch(uid_hash):
            msg = (
                "Node hash must be a 32 character String that describes a hex code, got "
                f"{shown(uid_hash)}; to name the state of an operator call uid"
            )
            raise DeclarationValueError(msg)
        warnings.warn(
            f"set_uid_hash has no effect, got {uid_hash!r}: savepoints of Flink cannot be read, and "
            "uid names the state here",
            stacklevel=2,
        )
        return self._set()

    def set_description(self: D, description: str) -> D:
        """Say what it does, where jobs are shown."""
        return self._set(description=description)

    def set_parallelism(self: D, parallelism: int) -> D:
        """Say how many instances it has.

        Raises:
            DeclarationValueError: It is less than 1.
        """
        if not is_int(parallelism) or parallelism < 1:
            msg = f"The parallelism of an operator must be at least 1, got {shown(parallelism)}"
            raise DeclarationValueError(msg)
        return self._set(parallelism=parallelism)

    def disable_chaining(self: D) -> D:
        """Nothing: how steps are put together is the host's matter."""
        return self

    def slot_sharing_group(self: D, slot_sharing_group: Any) -> D:  # noqa: ARG002
        """Nothing: where steps run is the host's matter."""
        return self


class DataStreamSink(Declared):
    """A sink in the graph, as `pyflink.datastream.DataStreamSink`."""


class CloseableIterator(Generic[T]):
    """The elements that a job collects, as they come; as PyFlink's, it can be used in a `with`.

    Args:
        run: The job.
        elements: That it collects.
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
        """End the job, if it has not ended."""
        self._run.cancel()


class Outlets(Declared):
    """Ways for elements to leave a job."""

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[Any]: ...
    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, *, limit: int
    ) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Any] | list[Any]:
        """Run a job, and get the elements of this stream.

        The job has all operators and sinks declared since the last one, as that of `execute`.

        Args:
            job_execution_name: Of the job.
            limit: How many elements are wanted at most, above 0; the job ends then.

        Returns:
            With a limit a list, else an iterator over a job that may still run.

        Raises:
            DeclarationValueError: The limit is not above 0.
            PyflinklikeError: The job failed.
        """
        if limit is not None and (not is_int(limit) or limit <= 0):
            msg = f"Limit must be greater than 0, got {shown(limit)}"
            raise DeclarationValueError(msg)
        sink = self._sink(CollectSink(), "Collect Sink", to_run=False)
        run = self._program.collect(sink, job_execution_name)
        results = CloseableIterator(run, run.collected(sink))
        if limit is None:
            return results
        with results:
            return [element for _, element in zip(range(limit), results)]

    def to_data_frame(self, schema: Any = None) -> Any:
        """The elements as a DataFrame of Spark, which runs the job whenever it is read.

        A row or tuple gives its fields as columns, any other element a column `value`.  In batch
        mode it is a batch, in streaming mode a stream: the job is a part of the query that
        `writeStream` starts, and has its checkpoint.  A query that begins again goes on with
        streaming DataFrames (`from_data_frame`), and reads other sources anew.
        PyFlink has this as `StreamTableEnvironment.from_data_stream`.

        Args:
            schema: Of the DataFrame: DDL, a `StructType` or a `TypeInformation`; None is the type of
                the elements, which must have been declared then.

        Raises:
            DeclarationTypeError, DeclarationValueError: Spark does not have the type of the
                elements, or it is no schema.
            HostError: The job has a step that Spark does not run, or there is no PySpark.
        """
        sink = self._sink(CollectSink(), "DataFrame", to_run=False)
        return self._program.data_frame(sink, schema)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each element to the standard output.

        Args:
            sink_identifier: Before the text of each.
        """
        return DataStreamSink(
            self._program, self._sink(PrintSink(sink_identifier), "Print to Std. Out")
        )

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Give the elements to a sink.

        Raises:
            DeclarationTypeError: It is none of this library's.
        """
        if not isinstance(sink, Sink):
            remedy = instance_of(Sink, sink, "use for example FileSink.for_row_format(...).build()")
            msg = f"sink_to takes a sink, got {shown(sink)}; {remedy}"
            raise DeclarationTypeError(msg)
        return DataStreamSink(self._program, self._sink(sink, "Sink"))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Refuse it: PyFlink's sink functions are Java's.

        Raises:
            DeclarationTypeError: Always, unless it is a sink for `sink_to`.
        """
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        msg = (
            f"add_sink takes sink functions of Java, got {shown(sink_func)}; use sink_to with a "
            "FileSink or KafkaSink, or print"
        )
        raise DeclarationTypeError(msg)

    def _sink(self, sink: Sink, name: str, *, to_run: bool = True) -> int:
        node = self._program.add(
            ToSink,
            name=name,
            inputs=(self._number,),
            type_info=self._node.type_info,
            sink=sink,
            # What is collected comes to one place.
            parallelism=None if to_run else 1,
        )
        if to_run:
            self._program.sinks.append(node.id)
        return node.id

    def get_type(self) -> TypeInformation:
        """The type of the elements."""
        return self._node.type_info

    def get_execution_environment(self) -> Any:
        """The environment that the stream was made in."""
        return self._program.environment

    def get_execution_config(self) -> ExecutionConfig:
        """Its settings."""
        return self._program.execution_config


def checked_function(function: Any, kinds: tuple[type, ...], message: str) -> Any:
    """A function of its own, if it is of a kind.

    Raises:
        DeclarationTypeError: It is of none, or cannot be pickled.
    """
    if not isinstance(function, kinds):
        remedy = instance_of(kinds[0], function, f"subclass {kinds[0].__name__}")
        msg = f"{message}, got {shown(function)}; {remedy}"
        raise DeclarationTypeError(msg)
    return captured(function)


def output_type_of(output_type: OutputType) -> TypeInformation:
    """The type that an operator was said to give: a list is a row of these, None pickled objects.

    Raises:
        DeclarationTypeError: It is none of these.
    """
    if output_type is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(output_type, list):
        from pyflinklike.common.types import Types as RowTypes

        return RowTypes.ROW(output_type)
    given: Any = output_type
    if not isinstance(given, TypeInformation):
        remedy = instance_of(TypeInformation, given, "give for example Types.STRING()")
        msg = f"output_type must be None, list or TypeInformation, got {shown(given)}; {remedy}"
        raise DeclarationTypeError(msg)
    return given


_NONE: Final = Pickled(pickle.dumps(None, protocol=5))


@attrs.frozen(repr=False)
class ObjectKeyTypeInfo(PickledByteArrayTypeInfo):
    """Keys that are equal if their pickles are: 1, 1.0 and True are three keys, and None is one."""

    def freeze_key(self, value: Any) -> Any:
        """A str, int or bytes itself, the pickle of anything else."""
        return _NONE if value is None else super().freeze_key(value)
