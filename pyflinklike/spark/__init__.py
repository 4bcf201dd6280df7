# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedProcessFunction` on a Spark DataFrame, streaming or batch."""

from pyflinklike._exports import opens, pin

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CoGroupedStreams",
    "ConnectedStreams",
    "History",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedConnectedStreams",
    "KeyedStream",
    "Savepoint",
    "StateView",
    "StateViews",
    "WindowedCoGroup",
    "WindowedJoin",
    "WindowedStream",
    "broadcast",
    "connect",
    "create_state_views",
    "decode_debezium",
    "diff_state",
    "end_input",
    "error_of",
    "foreach_output",
    "get_side_output",
    "history_at",
    "history_of",
    "key_by",
    "list_states",
    "main_output",
    "metrics_of",
    "open_state",
    "read_heads",
    "read_keyed_state",
    "read_savepoint",
    "read_segments",
    "read_state",
    "read_state_changes",
    "read_timers",
    "repartition_state",
    "take_savepoint",
    "window_all",
    "with_ending_watermark",
]

if opens(globals()):
    from pyflinklike.spark._plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyflinklike.cdc._spark.event_frames import decode_debezium
        from pyflinklike.joins._spark import (
            CoGroupedStreams,
            IntervalJoined,
            JoinedStreams,
            WindowedCoGroup,
            WindowedJoin,
        )
        from pyflinklike.queryable_state.replica_source import open_state
        from pyflinklike.spark._api.broadcast_streams import (
            BroadcastConnectedStream,
            BroadcastStream,
            broadcast,
        )
        from pyflinklike.spark._api.keyed_connected_streams import KeyedConnectedStreams
        from pyflinklike.spark._api.keyed_stream import (
            ConnectedStreams,
            KeyedStream,
            connect,
            key_by,
        )
        from pyflinklike.spark._host.observed_metrics import metrics_of
        from pyflinklike.spark._host.python_stage import error_of
        from pyflinklike.spark._savepoint.history import History, history_at, history_of
        from pyflinklike.spark._savepoint.initial_state import read_savepoint
        from pyflinklike.spark.end_of_input import end_input, with_ending_watermark
        from pyflinklike.spark.side_outputs import foreach_output, get_side_output, main_output
        from pyflinklike.state_processor._checkpoints.state_changes import read_state_changes
        from pyflinklike.state_processor._checkpoints.state_diff import diff_state
        from pyflinklike.state_processor._checkpoints.state_frames import (
            list_states,
            read_heads,
            read_keyed_state,
            read_segments,
            read_state,
            read_timers,
        )
        from pyflinklike.state_processor._checkpoints.state_views import (
            StateView,
            StateViews,
            create_state_views,
        )
        from pyflinklike.state_processor._edits.repartition import repartition_state
        from pyflinklike.state_processor._edits.saved_files import take_savepoint
        from pyflinklike.state_processor._edits.savepoint import Savepoint
        from pyflinklike.windows._spark import WindowedStream, window_all

    pin(globals())
