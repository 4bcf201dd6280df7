# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedProcessFunction` on a Spark DataFrame, streaming or batch."""

from typing import TYPE_CHECKING

from pyflinklike._exports import export_public, is_loading, lazily

if TYPE_CHECKING:
    from pyflinklike.cdc._spark import decode_debezium
    from pyflinklike.state_processor._spark.history import History, history_at, history_of

__all__ = [
    "BroadcastConnectedDataFrame",
    "BroadcastDataFrame",
    "CoGroupedDataFrames",
    "ConnectedDataFrames",
    "History",
    "IntervalJoined",
    "JoinedDataFrames",
    "KeyedConnectedDataFrames",
    "KeyedDataFrame",
    "WindowedCoGroup",
    "WindowedDataFrame",
    "WindowedJoin",
    "broadcast",
    "connect",
    "decode_debezium",
    "end_input",
    "error_of",
    "foreach_batch_output",
    "get_side_output",
    "history_at",
    "history_of",
    "key_by",
    "main_output",
    "metrics_of",
    "window_all",
    "with_ending_watermark",
]

if is_loading(globals()):
    from pyflinklike.spark._plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyflinklike.joins._spark import (
            CoGroupedDataFrames,
            IntervalJoined,
            JoinedDataFrames,
            WindowedCoGroup,
            WindowedJoin,
        )
        from pyflinklike.spark._api.broadcast_data_frame import (
            BroadcastConnectedDataFrame,
            BroadcastDataFrame,
            broadcast,
        )
        from pyflinklike.spark._api.connected_data_frames import KeyedConnectedDataFrames
        from pyflinklike.spark._api.results import (
            foreach_batch_output,
            get_side_output,
            main_output,
        )
        from pyflinklike.spark._host.observed_metrics import metrics_of
        from pyflinklike.spark._host.spark_failures import error_of
        from pyflinklike.spark._plan.event_time import end_input, with_ending_watermark
        from pyflinklike.spark.keyed_data_frame import (
            ConnectedDataFrames,
            KeyedDataFrame,
            connect,
            key_by,
        )
        from pyflinklike.windows._spark import WindowedDataFrame, window_all

    export_public(globals())
    # Few queries need these, and they load a quarter of the package.
    _HISTORY = "pyflinklike.state_processor._spark.history"
    lazily(
        globals(),
        History=_HISTORY,
        decode_debezium="pyflinklike.cdc._spark",
        history_at=_HISTORY,
        history_of=_HISTORY,
    )
