# SPDX-License-Identifier: Apache-2.0
"""The declaration of a query's state, which Spark wants before the first micro-batch.

Before a stream starts, Spark unpickles its processor in a Python process of its own, on the driver,
only to learn its state variables.  Ours has one for each operator, whatever the program.  So Spark
gets a small class, pickled by value, that declares them and imports neither this package nor the
user's modules: such imports took most of the time of a start.  In a task it becomes the real
processor.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext, cloudpickle
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike.spark._host.blob_map import LOG_TYPES

# The class may use only constants from our modules, or unpickling it would import those modules.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class DeclaringProcessor(StatefulProcessor):
    """A processor that only declares the state on the driver, and becomes the real one in a task.

    Args:
        processor: Serves the key groups; it is pickled at once.
        variables: Names of the state variables that it declares, in its order.
        relaying: The fields of `relay.Relaying`, if a keeper may serve the tasks.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        variables: Sequence[str],
        relaying: Mapping[str, Any] | None = None,
    ) -> None:
        self._variables = tuple(variables)
        self._relaying = relaying
        from pyflinklike.spark._host.driver_pickle import (
            PickledByDriver,  # not with the class: see above
        )

        serializer: Any = CloudPickleSerializer  # as Spark pickles, with its errors
        self._pickled: bytes = serializer().dumps(PickledByDriver(processor))
        self._processor: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if TaskContext.get() is not None:
            # The JVM sends records only after this, and Spark calls `init` with the first of them.
            from pyflinklike.spark._host.driver_pickle import acknowledge_pickle

            acknowledge_pickle()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables; in a task the real processor does it."""
        # Only a task has a context, the process on the driver does not.
        if TaskContext.get() is None:
            for name in self._variables:
                handle.getMapState(name, *LOG_TYPES)
            return
        if self._relaying is None:
            self._processor = pickle.loads(self._pickled).value  # noqa: S301 - as Spark unpickled this
        else:
            from pyflinklike.spark._host.relay import RelayProcessor

            self._processor = RelayProcessor(self._pickled, self._variables, self._relaying)
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data."""
        rows_out: Iterator[Any] = self._processor.handleInputRows(key, rows, timerValues)
        return rows_out

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        rows_out: Iterator[Any] = self._processor.handleExpiredTimer(
            key, timerValues, expiredTimerInfo
        )
        return rows_out

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint."""
        self._processor.handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        """Close the processor at the end of the task."""
        if self._processor is not None:
            self._processor.close()
