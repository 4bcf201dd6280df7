# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedProcessFunction` on a Spark DataFrame, streaming or batch."""

from pyflinklike.doors import pin
from pyflinklike.spark.setup.requirements import pyspark_checked

with pyspark_checked():
    from pyflinklike.spark.broadcast_streams import (
        BroadcastConnectedStream,
        BroadcastStream,
        broadcast,
    )
    from pyflinklike.spark.connected_streams import ConnectedStreams, connect
    from pyflinklike.spark.debezium.frames import decode_debezium
    from pyflinklike.spark.ending import end_input, with_ending_watermark
    from pyflinklike.spark.failures import error_of
    from pyflinklike.spark.following.opening import open_state
    from pyflinklike.spark.interval_join import IntervalJoined
    from pyflinklike.spark.keyed_connected_streams import KeyedConnectedStreams
    from pyflinklike.spark.keyed_stream import KeyedStream, key_by
    from pyflinklike.spark.progress import metrics_of
    from pyflinklike.spark.reading.changes import read_state_changes
    from pyflinklike.spark.reading.differences import diff_state
    from pyflinklike.spark.reading.keyed import read_keyed_state
    from pyflinklike.spark.reading.logs import read_heads, read_segments
    from pyflinklike.spark.reading.states import list_states, read_state, read_timers
    from pyflinklike.spark.savepoints import read_savepoint
    from pyflinklike.spark.side_outputs import foreach_output, get_side_output, main_output
    from pyflinklike.spark.window_join import (
        CoGroupedStreams,
        JoinedStreams,
        WindowedCoGroup,
        WindowedJoin,
    )
    from pyflinklike.spark.windowed_stream import WindowedStream, window_all
    from pyflinklike.spark.writing.repartitioning import repartition_state
    from pyflinklike.spark.writing.savepoint import Savepoint
    from pyflinklike.spark.writing.taking import take_savepoint

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CoGroupedStreams",
    "ConnectedStreams",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedConnectedStreams",
    "KeyedStream",
    "Savepoint",
    "WindowedCoGroup",
    "WindowedJoin",
    "WindowedStream",
    "broadcast",
    "connect",
    "decode_debezium",
    "diff_state",
    "end_input",
    "error_of",
    "foreach_output",
    "get_side_output",
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

pin(globals())
