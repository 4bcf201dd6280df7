# SPDX-License-Identifier: Apache-2.0
"""The package rocksdict, which is optional: it is imported when it is first needed."""

from __future__ import annotations

from typing import Any

from pyflinklike.checks import install
from pyflinklike.errors import HostError

__all__ = ["require_rocksdict"]


def require_rocksdict(who: str) -> Any:
    """Import rocksdict.

    Args:
        who: Name of what needs it, for the message.

    Raises:
        HostError: It is not installed.
    """
    try:
        import rocksdict
    except ImportError as error:
        msg = (
            f"{who} needs the package rocksdict, got {error}; {install('rocksdb')} wherever it runs"
        )
        raise HostError(msg) from error
    return rocksdict
