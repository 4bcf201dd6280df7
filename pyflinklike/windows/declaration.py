# SPDX-License-Identifier: Apache-2.0
"""What a user says of windows, before there is an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.windows.applied import AppliedFunction
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.contents import Contents
from pyflinklike.windows.evictor import Evictor
from pyflinklike.windows.kinds import Window
from pyflinklike.windows.trigger import Trigger

__all__ = ["Collect", "WindowDeclaration"]

Collect = Callable[[Any, Window, Any], Any]
"""Makes of key, window and result what goes out."""


@attrs.frozen
class WindowDeclaration:
    """What the user said of windows.

    Args:
        assigner: Says in which windows an element is.
        trigger: Says when one fires.
        contents: What is kept of elements.
        function: Makes outputs of that.
        allowed_lateness: How long a window of event time is open beyond its end, in ms.
        late_data_tag: Side output of elements that are late for all their windows, or None.
        late_output: Makes of such an element what goes out, where it is not that side output's; None
            where the element is counted.
        evictor: Removes elements when a window fires, or None.
        collect: Makes of key, window and result what goes out; None where that is the result.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: Contents
    function: AppliedFunction
    allowed_lateness: int = 0
    late_data_tag: OutputTag | None = None
    late_output: Callable[[Any], Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    collect: Collect | None = None
