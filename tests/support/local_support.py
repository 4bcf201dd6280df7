# SPDX-License-Identifier: Apache-2.0
"""Jobs on the local runner: environments, sources that never end, and functions that tell."""

from __future__ import annotations

import itertools
from typing import Any

import attrs

from pyflinklike.pyflink._graph.nodes import ToSink
from pyflinklike.pyflink._graph.sinks import CollectSink
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)

__all__ = ["Each", "Endless", "Watermarks", "Where", "collecting", "local"]


def local(**settings: str) -> StreamExecutionEnvironment:
    """An environment whose jobs run in this process.

    Args:
        settings: Keys, with `__` for a dot and `_` for a hyphen.
    """
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    values = Configuration.from_dict({"execution.target": "local", **keys})
    return StreamExecutionEnvironment.get_execution_environment(values)


def collecting(stream: Any) -> Any:
    """A stream, whose program has a sink now that collects it, and was not run.

    Args:
        stream: Of a program without another sink.
    """
    node = stream._program.builder.add(
        ToSink,
        name="Collect",
        inputs=(stream._node.id,),
        type_info=stream.get_type(),
        sink=CollectSink(),
    )
    stream._program.sinks.append(node.id)
    return stream


@attrs.frozen
class Endless(Source):
    """The numbers from 0 on."""

    @property
    def is_bounded(self) -> bool:
        return False

    def read(self, index: int, parallelism: int) -> Any:
        return ((number, None) for number in itertools.count(index, parallelism))


class Each(KeyedProcessFunction):
    """Gives each element of a keyed stream."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Watermarks(ProcessFunction):
    """Gives each element with the watermark that it sees."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


class Where(KeyedProcessFunction):
    """Gives each element with the instance that it came to, and how many there are."""

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, self.index, self.parallelism
