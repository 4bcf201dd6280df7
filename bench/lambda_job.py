# SPDX-License-Identifier: Apache-2.0
"""PJ1: W1 as a job of the DataStream API with lambdas, run as it is by PyFlink and by pyflinklike.

It imports `pyflink`; on our side `pyflinklike.run.install()` makes that ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class RunningCount(KeyedProcessFunction):
    """The key's count so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def outputs(records: Any) -> Any:
    """The stream of users and counts.

    Args:
        records: A stream of rows of user and amount.
    """
    return (
        records.map(lambda row: (row[0], row[1]), PAIR)
        .key_by(lambda pair: pair[0], Types.STRING())
        .process(RunningCount(), PAIR)
    )
