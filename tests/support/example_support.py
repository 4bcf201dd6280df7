# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ as modules."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    """An example whose classes and functions reach Spark's workers, which cannot import it."""
    from pyspark import cloudpickle

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        module = importlib.import_module(name)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
