# SPDX-License-Identifier: Apache-2.0
"""The socket's acknowledgement of a stage's pickle, which the JVM waits for.

The JVM writes the pickle of a stage, and then its records
(https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/api/python/PythonRunner.scala).
The kernel holds the records back until the pickle is acknowledged (Nagle's algorithm).  It
acknowledges with the worker's next answer, or after 40 ms; and the worker has no answer before it
has read records.  With a few hundred records these 40 ms were most of the time of a stage.
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
    """Have Linux acknowledge at once what this process has read from local connections.

    For a worker that has read the pickle of its stage and not yet a record.  Elsewhere than on Linux,
    and on a Unix domain socket, which has no acknowledgements, it does nothing.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # With a default timeout, which a user may set, Python's sockets are non-blocking from the moment
    # they are made, and PySpark's connection, of which one is made here, must not become so.
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
