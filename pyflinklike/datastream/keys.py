# SPDX-License-Identifier: Apache-2.0
"""The type of keys whose type a program does not declare: any object that pickles, None included."""

from __future__ import annotations

import pickle
from typing import Any, Final

import attrs

from pyflinklike.types.pickled import Pickled, PickledByteArrayTypeInfo

__all__ = ["ObjectKeyTypeInfo"]

_NONE: Final = Pickled(pickle.dumps(None, protocol=5))


@attrs.frozen(repr=False)
class ObjectKeyTypeInfo(PickledByteArrayTypeInfo):
    """Keys that are equal if their pickles are: 1, 1.0 and True are three keys, and None is one."""

    def freeze_key(self, value: Any) -> Any:
        """A str, int or bytes itself, the pickle of anything else."""
        return _NONE if value is None else super().freeze_key(value)
