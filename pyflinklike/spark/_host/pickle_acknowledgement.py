# SPDX-License-Identifier: Apache-2.0
"""An early acknowledgement of a stage's pickle, because the JVM waits for it.

The JVM writes the pickle of a stage to a socket, and then the records of the stage
(https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/api/python/PythonRunner.scala).
The sending kernel holds the records back until the pickle is acknowledged (Nagle's algorithm).  The
receiving kernel acknowledges with the worker's next answer, or after 40 ms, and the worker does not
answer before it has read records.  For a few hundred records, these 40 ms were most of the time of a
stage.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import Final

__all__ = ["acknowledge_pickle"]

_LOOPBACK: Final = ("127.0.0.1", "::1")
_OPEN_FILES: Final = "/proc/self/fd"


def acknowledge_pickle() -> None:
    """Make Linux acknowledge at once the bytes that this process has read from local connections.

    A worker calls this when it has read the pickle of its stage and no record yet.  It does nothing
    on other systems than Linux, or on a Unix domain socket, which has no acknowledgements.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # If the user has set a default timeout, a new socket object makes its connection non-blocking.
    # Below one is made for PySpark's own connection, which must stay blocking.
    if option is None or socket.getdefaulttimeout() is not None:
        return
    # PySpark shows the connection only to its own loop, so it is found among the open files.
    for name in os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else ():
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
                if is_tcp and connection.getpeername()[0] in _LOOPBACK:
                    connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        except OSError:  # closed since, not connected, or no TCP
            continue
