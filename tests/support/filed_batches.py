# SPDX-License-Identifier: Apache-2.0
"""The rows of a stream's micro-batches, also where another process collects them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Batches = Mapping[int, list[Any]]
"""Rows by batch id."""


class FiledBatches(Batches):
    """Rows by batch id that a process of a Spark Connect server has collected, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def __setitem__(self, batch_id: int, rows: list[Any]) -> None:
        written = self._directory / f"_{batch_id}"
        written.write_bytes(pickle.dumps(rows))
        written.rename(self._directory / str(batch_id))

    def __getitem__(self, batch_id: int) -> list[Any]:
        try:
            rows: list[Any] = pickle.loads((self._directory / str(batch_id)).read_bytes())
        except FileNotFoundError:
            raise KeyError(batch_id) from None
        return rows

    def __iter__(self) -> Iterator[int]:
        names = [each.name for each in self._directory.iterdir()]
        return iter(sorted(int(name) for name in names if not name.startswith("_")))

    def __len__(self) -> int:
        return len(list(iter(self)))
