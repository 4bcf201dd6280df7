# SPDX-License-Identifier: Apache-2.0
"""Which stream a micro-batch is of, over Spark Connect.

There the function of `foreachBatch` runs in a Python process that the server starts for each run of a
stream.  Spark tells it the batch's id, and not the stream's, which a view needs: the batches of
each stream count from 0.  If one stream alone runs in the session that started it, that is the one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyflinklike.errors import HostError

__all__ = ["SERVED", "ServedStream"]

_STARTED_BY_A_SERVER = "SPARK_CONNECT_LOCAL_URL"


class ServedStream:
    """The stream that this process serves, if a server of Spark Connect has started it for one."""

    def __init__(self) -> None:
        self.session: Any = None
        """The one that started the stream, where it is known."""
        self._id: str | None = None

    def remember_session(self) -> None:
        """Remember the session that is active now, while the function of `foreachBatch` is unpickled.

        It started the stream.  Since Spark 4.3 that of a batch is a clone, which knows no streams.
        """
        connect = sys.modules.get("pyspark.sql.connect.session")
        if connect is not None and _STARTED_BY_A_SERVER in os.environ:
            self.session = connect.SparkSession.getActiveSession()

    def id_for(self, session: Any) -> str:
        """The stream's id; "" where the process serves none.

        Args:
            session: Of the batch.

        Raises:
            HostError: The stream cannot be told from others.
        """
        if _STARTED_BY_A_SERVER not in os.environ:
            return ""
        if self._id is None:
            active = (self.session or session).streams.active
            running = {query.id: query.name for query in active}
            if len(running) != 1:
                msg = (
                    "a view must know which stream a batch is of, and over Spark Connect it can "
                    f"tell only if one runs in the session, got {len(running)} "
                    f"({list(running.values())}); name the stream: "
                    'foreachBatch(functools.partial(view.foreach_batch, source="<a name>"))'
                )
                raise HostError(msg)
            self._id = str(next(iter(running)))
        return self._id


SERVED = ServedStream()
"""Of this process."""
