# SPDX-License-Identifier: Apache-2.0
"""A graph for people: Flink's JSON of a plan, and pictures of it.

A picture is either text that Mermaid draws, or SVG that graphlay draws without a browser or a network.
"""

from __future__ import annotations

import json
from typing import Any

from pyflinklike._checks import install
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationValueError, RequirementError
from pyflinklike.pyflink._graph.job import JobGraph
from pyflinklike.pyflink._graph.nodes import (
    FromSource,
    KeyBy,
    Node,
    Partition,
    SideOutput,
    ToSink,
    Union,
)

# Flink shows these as the "ship_strategy" of an edge, not as operators.
_NOT_SHOWN = (KeyBy, Partition, SideOutput, Union)


def execution_plan(graph: JobGraph, parallelism: int) -> str:
    """Return the operators of a graph as JSON, in the form of Flink's `getExecutionPlan`.

    Args:
        graph: The graph of a job.
        parallelism: The parallelism of an operator that asks for none.
    """
    shown = [node for node in graph.nodes.values() if not isinstance(node, _NOT_SHOWN)]
    nodes = [_entry(node, graph, node.parallelism or parallelism) for node in shown]
    return json.dumps({"nodes": nodes}, indent=2)


def _entry(node: Node, graph: JobGraph, parallelism: int) -> dict[str, Any]:
    kind, pact = _KINDS.get(type(node), ("", "Operator"))
    entry: dict[str, Any] = {
        "id": node.id,
        "type": f"{kind}{node.name}",
        "pact": pact,
        "contents": node.description or node.name,
        "parallelism": parallelism,
    }
    predecessors = [each for number in node.inputs for each in _senders(number, graph, parallelism)]
    return {**entry, "predecessors": predecessors} if predecessors else entry


_KINDS: dict[type[Node], tuple[str, str]] = {
    FromSource: ("Source: ", "Data Source"),
    ToSink: ("Sink: ", "Data Sink"),
}


def _senders(
    number: int, graph: JobGraph, parallelism: int, strategy: str | None = None
) -> list[dict[str, Any]]:
    """Return the operators that send to an input, with the strategy by which they send."""
    node = graph.nodes[number]
    if isinstance(node, KeyBy):
        strategy = strategy or "HASH"
    elif isinstance(node, Partition):
        strategy = strategy or node.how.value
    elif not isinstance(node, _NOT_SHOWN):
        own = 1 if isinstance(node, FromSource) and node.source.parallelism == 1 else None
        same = (own or node.parallelism or parallelism) == parallelism
        ship = strategy or ("FORWARD" if same else "REBALANCE")
        return [{"id": number, "ship_strategy": ship, "side": "second"}]
    return [
        sender for each in node.inputs for sender in _senders(each, graph, parallelism, strategy)
    ]


# Pictures


_HEIGHT, _LETTER, _MARGIN = 36.0, 8.0, 28.0
"""The height of a node, the width of a letter of its name, and the margin, in px."""


def draw_picture(graph: JobGraph, form: str) -> str:
    """Return a graph in one of the forms of pictures.

    Args:
        graph: The graph of a job.
        form: "mermaid" for text, or "svg" for a drawing.

    Raises:
        DeclarationValueError: There is no such form.
        RequirementError: graphlay is missing, for "svg": the extra `plan`.
    """
    if form == "mermaid":
        return _mermaid(graph)
    if form == "svg":
        return _svg(graph)
    msg = f"explain takes 'mermaid' or 'svg', got {short_repr(form)}; give one of them"
    raise DeclarationValueError(msg)


def _mermaid(graph: JobGraph) -> str:
    """Return a flow chart of a graph, which Mermaid draws."""
    lines = ["flowchart LR"]
    for node in graph.nodes.values():
        opening, closing = ("([", "])") if isinstance(node, (FromSource, ToSink)) else ("[", "]")
        # A quote would end the label.
        label = (node.description or node.name).replace('"', "'")
        lines.append(f'  n{node.id}{opening}"{label}"{closing}')
        lines += [f"  n{number} --> n{node.id}" for number in node.inputs]
    return "\n".join(lines)


def _svg(graph: JobGraph) -> str:
    """Return a drawing of a graph by graphlay: elements go from left to right."""
    try:
        import graphlay
    except ImportError as error:
        msg = (
            "a plan is drawn as SVG by graphlay, which is not installed; "
            f"{install('plan')}, or take explain('mermaid')"
        )
        raise RequirementError(msg, name=error.name) from error
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
