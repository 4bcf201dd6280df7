# SPDX-License-Identifier: Apache-2.0
"""A graph as a picture: as text that Mermaid draws, or as SVG without a browser or a network."""

from __future__ import annotations

from typing import Any

from pyflinklike.checks import install
from pyflinklike.errors import DeclarationValueError, RequirementError
from pyflinklike.graph.execution_plan import mermaid
from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import FromSource, ToSink
from pyflinklike.shown import shown

__all__ = ["pictured", "svg"]

_HEIGHT, _LETTER, _MARGIN = 36.0, 8.0, 28.0
"""The height of a node, the width of a letter of its name, and the margin, in px."""


def pictured(graph: JobGraph, form: str) -> str:
    """Return a graph in one of the forms of pictures.

    Args:
        graph: The graph of a job.
        form: "mermaid" or "svg".

    Raises:
        DeclarationValueError: There is no such form.
        RequirementError: graphlay is missing, for "svg".
    """
    if form == "mermaid":
        return mermaid(graph)
    if form == "svg":
        return svg(graph)
    msg = f"explain takes 'mermaid' or 'svg', got {shown(form)}; give one of them"
    raise DeclarationValueError(msg)


def svg(graph: JobGraph) -> str:
    """Return a drawing of a graph by graphlay: elements go from left to right.

    Args:
        graph: The graph of a job.

    Raises:
        RequirementError: graphlay is missing: the extra `plan`.
    """
    graphlay = _graphlay()
    drawn = graphlay.Graph()
    for node in graph.nodes.values():
        label = node.description or node.name
        shape = "ellipse" if isinstance(node, (FromSource, ToSink)) else "box"
        width = _MARGIN + _LETTER * len(label)
        drawn.node(node.id, width=width, height=_HEIGHT, shape=shape, label=label)
    for node in graph.nodes.values():
        for number in node.inputs:
            drawn.edge(number, node.id)
    return str(graphlay.layout(drawn, preset="layered").sketch())


def _graphlay() -> Any:
    try:
        import graphlay
    except ImportError as error:
        msg = (
            "a plan is drawn as SVG by graphlay, which is not installed; "
            f"{install('plan')}, or take explain('mermaid')"
        )
        raise RequirementError(msg, name=error.name) from error
    return graphlay
