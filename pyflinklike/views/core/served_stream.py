# SPDX-License-Identifier: Apache-2.0
"""The stream of a micro-batch over Spark Connect.

There the function of `foreachBatch` runs in a Python process that the server starts for each run of
a stream.  Spark gives it the batch's id but not the stream's, which a view needs: the batches of
each stream count from 0.  If only one stream runs in the session that started it, it is that
stream.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyflinklike.errors import HostError

__all__ = ["SERVED", "ServedStream"]

_STARTED_BY_A_SERVER = "SPARK_CONNECT_LOCAL_URL"


class ServedStream:
    """The stream that this process serves, if a server of Spark Connect started it for one."""

    def __init__(self) -> None:
        self.session: Any = None
        """The session that started the stream, where it is known."""
        self._id: str | None = None

    def remember_session(self) -> None:
        """Remember the session that is active while the function of `foreachBatch` is unpickled.

        It started the stream.  Since Spark 4.3 a batch's session is a clone, which knows no
        streams.
        """
        connect = sys.modules.get("pyspark.sql.connect.session")
        if connect is not None and _STARTED_BY_A_SERVER in os.environ:
            self.session = connect.SparkSession.getActiveSession()

    def id_for(self, session: Any) -> str:
        """Return the stream's id; "" where the process serves none.

        Args:
            session: The session of the batch.

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
"""The stream of this process."""
