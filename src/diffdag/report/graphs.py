"""A result as a graph for other programs: networkx, GraphML, Cytoscape, Graphviz, SIF, causal-learn, DoWhy.

JSON can say any name. Formats of lines and of XML cannot: there control characters appear as escapes, and
names that become the same by it are told apart by a prime.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from diffdag._base.checks import check_option
from diffdag._base.errors import InputError
from diffdag._base.extras import extra
from diffdag._base.words import join_names
from diffdag.report.format import by_size, ends, printable
from diffdag.report.layout.theme import THEMES

if TYPE_CHECKING:
    import networkx as nx

    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge

CHARACTER, MARGIN = 7.0, 20.0  # the size of a box around a name, in points
ROW_WIDTH, ROW_STEP = 1200.0, 60.0
GRAPHML = {
    "xmlns": "http://graphml.graphdrawing.org/xmlns",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "xsi:schemaLocation": "http://graphml.graphdrawing.org/xmlns "
    "http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd",
}
# Graphviz has fewer kinds of lines than there are changes, but many arrowheads.
LINES = {"removed": "dashed", "weakened": "dotted", "reversed-sign": "dashed"}
HEADS = {"strengthened": "normalnormal", "reversed-sign": "odiamond"}


def to_networkx(result: Difference) -> nx.DiGraph[str]:
    """Return a graph of all variables, with their `role`, and of the changed edges; undirected both ways."""
    with extra("networkx", "graphs"):
        import networkx as nx  # noqa: PLC0415

    graph: nx.DiGraph[str] = nx.DiGraph(method=result.method, first=result.labels[0], second=result.labels[1])
    for name, role in _roles(result).items():
        graph.add_node(name, role=role)
    for (source, target), known in _arcs(result.edge_list).items():
        graph.add_edge(source, target, **known)
    return graph


def _arcs(edges: Iterable[Edge]) -> dict[tuple[str, str], dict[str, Any]]:
    """What is known of the changed edges, by source and target; undirected ones are there both ways."""
    arcs: dict[tuple[str, str], dict[str, Any]] = {}
    for edge in edges:
        joined = (edge.source, edge.target)
        for arc in (joined,) if edge.directed else (joined, joined[::-1]):
            arcs.setdefault(arc, {}).update(_known(edge))
    return arcs


def _renamed(edge: Edge, shown: Mapping[str, str]) -> Edge:
    """An edge with other names for its variables."""
    beside, gain_of = tuple(shown[name] for name in edge.stand_ins), edge.gain_of and shown[edge.gain_of]
    return replace(
        edge, source=shown[edge.source], target=shown[edge.target], gain_of=gain_of, stand_ins=beside
    )


def _known(edge: Edge) -> dict[str, Any]:
    """What is known of an edge besides its ends."""
    ends = ("source", "target")
    return {key: value for key, value in edge.known.items() if key not in ends}


def _roles(result: Difference) -> dict[str, str]:
    """What part each variable takes."""
    roles = dict.fromkeys(result.screened_out, "screened out") | dict.fromkeys(result.invariant, "invariant")
    roles |= dict.fromkeys(result.unresolved, "unresolved")
    return {name: roles.get(name, "changed") for name in result.variables}


def _joined(result: Difference) -> list[str]:
    """Variables at the ends of changed edges, in the order of the columns."""
    taking_part = set(ends(result.edge_list))
    return [name for name in result.variables if name in taking_part]


def _printable_names(result: Difference) -> dict[str, str]:
    """Each variable's name without control characters, still different from all others."""
    taken: dict[str, str] = {}
    for name in result.variables:
        taken[_free(printable(name), taken)] = name
    return {name: shown for shown, name in taken.items()}


def to_graphml(result: Difference) -> str:
    """Return the graph as GraphML. XML has no control characters: in names they appear as escapes."""
    import xml.etree.ElementTree as ET  # noqa: PLC0415

    shown = _printable_names(result)
    first, second = map(printable, result.labels)
    root = ET.Element("graphml", GRAPHML)
    graph = ET.Element("graph", edgedefault="directed")
    keys: dict[tuple[str, str, str], str] = {}

    def describe(element: ET.Element, known: Mapping[str, str | bool | float]) -> None:
        for name, value in known.items():
            kind, text = _typed(value)
            key = keys.setdefault((element.tag, name, kind), f"d{len(keys)}")
            ET.SubElement(element, "data", key=key).text = text

    describe(graph, {"method": printable(result.method), "first": first, "second": second})
    for name, role in _roles(result).items():
        describe(ET.SubElement(graph, "node", id=shown[name]), {"role": role})
    for (source, target), known in _arcs(_renamed(edge, shown) for edge in result.edge_list).items():
        describe(ET.SubElement(graph, "edge", source=source, target=target), known)
    for (tag, name, kind), key in keys.items():
        ET.SubElement(root, "key", {"id": key, "for": tag, "attr.name": name, "attr.type": kind})
    root.append(graph)
    ET.indent(root)
    return ET.tostring(root).decode("ascii") + "\n"


def _typed(value: str | bool | float) -> tuple[str, str]:
    """The type of a value in GraphML, and the value as it is written there."""
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    return ("string" if isinstance(value, str) else "double"), str(value)


def to_cytoscape(result: Difference) -> dict[str, Any]:
    """Return the graph as Cytoscape.js JSON, which Cytoscape reads as ``.cyjs``.

    An undirected edge appears once, with ``directed`` false. Causes are placed on top.
    """
    roles, places = _roles(result), _positions(result)
    nodes = [
        # "value" is what networkx reads.
        {"data": {"id": name, "value": name, "name": name, "role": role}}
        | ({"position": places[name]} if places else {})
        for name, role in roles.items()
    ]
    edges = [
        {
            "data": {
                "id": _free(f"edge {number}", roles),  # Cytoscape.js has one namespace for nodes and edges
                "source": edge.source,
                "target": edge.target,
                "name": f"{edge.source} ({edge.kind}) {edge.target}",
                "interaction": edge.kind,
                **_known(edge),
            }
        }
        for number, edge in enumerate(result.edge_list, start=1)
    ]
    first, second = result.labels
    name = f"From {first} to {second}"
    return {
        "format_version": "1.0",
        "generated_by": f"diffdag {version('diffdag')}",
        "target_cytoscapejs_version": "~2.1",
        "directed": True,
        "multigraph": False,
        "data": {"name": name, "shared_name": name, "method": result.method, "first": first, "second": second},
        "elements": {"nodes": nodes, "edges": edges},
    }


def _free(text: str, taken: Container[str]) -> str:
    """A name that nothing else has, told apart by primes."""
    while text in taken:
        text += "'"
    return text


def _positions(result: Difference) -> dict[str, dict[str, float]]:
    """Where the variables go, y downwards: those that take part in rows, the others in rows below them."""
    from diffdag.report.layout.picture import MOST_EDGES, NAME_CHARACTERS, Picture  # noqa: PLC0415

    if len(result.edge_list) > MOST_EDGES:  # programs that lay out graphs do better then
        return {}
    picture = Picture(result)
    places = {
        name: {"x": round(x, 1), "y": round(picture.layout.height - y, 1)}
        for name, (x, y) in zip(picture.names, picture.layout.centres, strict=True)
    }
    x, y = 0.0, picture.layout.height + ROW_STEP
    for name in [name for name in result.variables if name not in places]:
        width = MARGIN + CHARACTER * min(len(name), NAME_CHARACTERS)
        if x and x + width > ROW_WIDTH:
            x, y = 0.0, y + ROW_STEP
        places[name] = {"x": round(x + width / 2, 1), "y": round(y, 1)}
        x += width + MARGIN
    return places


def to_dot(result: Difference) -> str:
    """Return the changed edges in the language of Graphviz, to be drawn with ``dot -Tsvg``.

    Variables that take part in no changed edge are left out. Beside what Graphviz draws, edges carry what is
    known of them: change, weights, delta, its standard error, confidence.
    """
    shown = _printable_names(result)
    largest = max((abs(edge.delta or 0.0) for edge in result.edge_list), default=0.0) or 1.0
    roles = _roles(result)
    first, second = map(printable, result.labels)
    lines = [
        f"digraph {_quoted('diffdag')} {{",
        f"  graph [label={_label(f'From {first} to {second}')}, fontname=Helvetica];",
        "  node [shape=box, style=rounded, fontname=Helvetica];",
    ]
    lines += [
        f"  {_identifier(shown[name])} [label={_label(shown[name])}, role={_quoted(roles[name])}];"
        for name in _joined(result)
    ]
    for edge in by_size(result.edge_list):
        words = ", ".join(f"{key}={value}" for key, value in _drawn(edge, largest).items())
        lines.append(f"  {_identifier(shown[edge.source])} -> {_identifier(shown[edge.target])} [{words}];")
    return "\n".join([*lines, "}"]) + "\n"


def _drawn(edge: Edge, largest: float) -> dict[str, str]:
    """Attributes of an edge: how it looks, and what is known of it."""
    drawn = {
        "color": _quoted(THEMES["light"].kinds[edge.kind]),
        "style": LINES.get(edge.kind, "solid"),
        "penwidth": f"{1.0 + 2.5 * abs(edge.delta or 0.0) / largest:.2f}",
        "tooltip": _label(edge.kind if edge.delta is None else f"{edge.kind}, delta {edge.delta:.4g}"),
        "kind": _quoted(edge.kind),
    }
    if not edge.directed:
        drawn["dir"] = "none"
    elif edge.kind in HEADS:
        drawn["arrowhead"] = HEADS[edge.kind]
    numbers = {key: value for key, value in _known(edge).items() if isinstance(value, float)}
    return drawn | {key: _quoted(repr(value)) for key, value in numbers.items()}


def _identifier(text: str) -> str:
    r"""A name in quotes, where Graphviz takes ``\"`` for a quote and leaves every other backslash as it is.

    An odd number of them before a quote or at the end cannot be written; they are doubled then.
    """
    unclear = re.search(r'(?<!\\)(\\\\)*\\("|\n|$)', text)
    return _quoted(text) if unclear else '"' + text.replace('"', '\\"') + '"'


def _quoted(text: str) -> str:
    """A text to be shown, in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _label(text: str) -> str:
    """A text to be shown: there Graphviz replaces entities such as ``&lt;``."""
    return _quoted(text.replace("&", "&amp;"))


def to_sif(result: Difference) -> str:
    """Return the changed edges in Cytoscape's simple interaction format: source, kind and target, by tabs.

    Variables without a changed edge follow, each on its line.
    """
    shown = _printable_names(result)
    joined = set(_joined(result))
    # Edges first: readers take the delimiter from the first line.
    lines = [f"{shown[edge.source]}\t{edge.kind}\t{shown[edge.target]}" for edge in result.edge_list]
    lines += [shown[name] for name in result.variables if name not in joined]
    return "".join(f"{line}\n" for line in lines)


def to_causallearn(result: Difference) -> Any:
    """Return the changed edges as a ``GeneralGraph`` of causal-learn, directed and undirected."""
    with extra("causal-learn", "compare"):
        from causallearn.graph import Edge as joins  # noqa: PLC0415
        from causallearn.graph.Endpoint import Endpoint  # noqa: PLC0415
        from causallearn.graph.GeneralGraph import GeneralGraph  # noqa: PLC0415
        from causallearn.graph.GraphNode import GraphNode  # noqa: PLC0415
    nodes = {name: GraphNode(name) for name in result.variables}
    graph = GeneralGraph(list(nodes.values()))
    for edge in result.edge_list:
        source, target = nodes[edge.source], nodes[edge.target]
        if graph.is_adjacent_to(source, target):
            raise InputError(
                f"'{edge.source}' and '{edge.target}' are joined twice, which causal-learn does not know; "
                "use to_networkx"
            )
        end = Endpoint.ARROW if edge.directed else Endpoint.TAIL
        graph.add_edge(joins.Edge(source, target, Endpoint.TAIL, end))
    return graph


def to_dowhy(result: Difference, undirected: Literal["error", "drop"] = "error") -> nx.DiGraph[str]:
    """Return the directed changed edges alone, as ``CausalModel(graph=...)`` of DoWhy takes graphs.

    This is the graph of the effects that *changed*, not the causal graph of either condition: two variables
    without an edge here may well affect each other, equally in both. It says where to look, and is no ground
    for identifying an effect; add the edges that you know before DoWhy adjusts for anything.

    Parameters
    ----------
    result : Difference
    undirected : {"error", "drop"}, default "error"
        What to do about changes whose direction is unknown: DoWhy has no place for them.
    """
    with extra("networkx", "graphs"):
        import networkx as nx  # noqa: PLC0415

    said = f"undirected must be 'error' or 'drop'; it is {undirected!r}"
    check_option("undirected", undirected, ("error", "drop"), said)
    open_edges = [str(edge) for edge in result.edge_list if not edge.directed]
    if open_edges and undirected == "error":
        raise InputError(
            f"{join_names(open_edges)} {'has' if len(open_edges) == 1 else 'have'} no direction, and "
            "DoWhy takes directed graphs; leave such edges out with undirected='drop', or fit again with what "
            "is known of the order"
        )
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(result.variables)
    graph.add_edges_from((edge.source, edge.target) for edge in result.edge_list if edge.directed)
    if not nx.is_directed_acyclic_graph(graph):
        raise InputError("the changed edges form a cycle, and DoWhy takes acyclic graphs; use to_networkx")
    return graph
