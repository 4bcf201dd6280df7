# SPDX-License-Identifier: Apache-2.0
"""Manifests of savepoints with wrong contents and a right checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["resealed"]


def resealed(savepoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest of a savepoint in place.

    Args:
        savepoint: Its directory.
        change: Does so to its fields.
    """
    file = savepoint / "_manifest.json"
    fields = json.loads(file.read_text())
    del fields["checksum"]
    change(fields)
    compact = json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    file.write_text(json.dumps({**fields, "checksum": zlib.crc32(compact.encode())}))
