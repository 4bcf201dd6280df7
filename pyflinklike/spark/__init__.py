# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedProcessFunction` on a Spark DataFrame, streaming or batch."""

from pyflinklike.engine.doors import opens, pin

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
    from pyflinklike.spark.plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyflinklike.spark.api.broadcast_streams import (
            BroadcastConnectedStream,
            BroadcastStream,
            broadcast,
        )
        from pyflinklike.spark.api.joined_streams import (
            CoGroupedStreams,
            IntervalJoined,
            JoinedStreams,
            WindowedCoGroup,
            WindowedJoin,
        )
        from pyflinklike.spark.api.keyed_connected_streams import KeyedConnectedStreams
        from pyflinklike.spark.api.keyed_stream import (
            ConnectedStreams,
            KeyedStream,
            connect,
            key_by,
        )
        from pyflinklike.spark.api.windowed_stream import WindowedStream, window_all
        from pyflinklike.spark.debezium.event_frames import decode_debezium
        from pyflinklike.spark.end_of_input import end_input, with_ending_watermark
        from pyflinklike.spark.host.observed_metrics import metrics_of
        from pyflinklike.spark.host.python_stage import error_of
        from pyflinklike.spark.read.replica_source import open_state
        from pyflinklike.spark.read.state_changes import read_state_changes
        from pyflinklike.spark.read.state_diff import diff_state
        from pyflinklike.spark.read.state_frames import (
            list_states,
            read_heads,
            read_keyed_state,
            read_segments,
            read_state,
            read_timers,
        )
        from pyflinklike.spark.read.state_views import StateView, StateViews, create_state_views
        from pyflinklike.spark.savepoint.history import History, history_at, history_of
        from pyflinklike.spark.savepoint.initial_state import read_savepoint
        from pyflinklike.spark.savepoint.repartition import repartition_state
        from pyflinklike.spark.savepoint.saved_files import take_savepoint
        from pyflinklike.spark.savepoint.savepoint import Savepoint
        from pyflinklike.spark.side_outputs import foreach_output, get_side_output, main_output

    pin(globals())
