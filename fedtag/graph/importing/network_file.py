"""Files of graphs that NetworkX reads: GraphML, GEXF, GML, Pajek."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx
from defusedxml import DefusedXmlException, ElementTree

from fedtag.client.data.problems import shown
from fedtag.graph.importing.source import Source, refused, source_of_rows


def _labelled(path: Path) -> Any:
    """A graph in GML, whose nodes are called by their labels where each has one of its own."""
    text = path.read_text(encoding="utf-8-sig")
    if not re.search(r"^\s*multigraph\b", text, re.MULTILINE):
        # Otherwise an edge that stands twice is an error to NetworkX.
        text = re.sub(r"\bgraph\s*\[", "graph [\nmultigraph 1", text, count=1)
    try:
        return nx.parse_gml(text)
    except nx.NetworkXError:
        return nx.parse_gml(text, label="id")


def _of_vertices(path: Path) -> Any:
    """A graph of Pajek, whose nodes are called by their labels."""
    text = path.read_text(encoding="utf-8-sig")
    graph = nx.parse_pajek(text)
    if re.search(r"^\*(arcs|edges)list", text, re.IGNORECASE | re.MULTILINE):
        raise nx.NetworkXError("it has lists of edges")
    stated = re.search(r"^\*vertices\s+(\d+)", text, re.IGNORECASE | re.MULTILINE)
    if stated and int(stated[1]) != len(graph):
        raise nx.NetworkXError(f"{stated[1]} vertices, {len(graph)} names")
    for _, _, data in graph.edges(data=True):
        # Of an edge without a weight Pajek says 1.
        data.setdefault("weight", 1.0)
    return graph


READERS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    ".graphml": ("GraphML", nx.read_graphml),
    ".gexf": ("GEXF", nx.read_gexf),
    ".gml": ("GML", _labelled),
    ".net": ("Pajek", _of_vertices),
}
XML = {"graphml": ".graphml", "gexf": ".gexf"}
"""Files of XML by what their outermost element is called."""
SOURCE, TARGET, NODE = "source", "target", "id"


def network_tables(path: Path, file: str, suffix: str) -> list[Source]:
    """Nodes and edges of a file of a graph, with their attributes as columns.

    Args:
        path: of the file, unpacked.
        file: what its owner calls it.
        suffix: the format.

    Raises:
        DataError: it cannot be read.
    """
    form, read = READERS[suffix]
    try:
        graph = read(path)
    except (nx.NetworkXException, ValueError, KeyError, TypeError, AttributeError, SyntaxError) as error:
        raise refused(
            file, f"is not readable as {form} ({shown(str(error))})", "write it with NetworkX"
        ) from error
    nodes = [({NODE: node}, data) for node, data in graph.nodes(data=True)]
    edges = [({SOURCE: a, TARGET: b}, data) for a, b, data in graph.edges(data=True)]
    return [
        _table(file, "nodes", form, (NODE,), nodes, graph.is_directed()),
        _table(file, "edges", form, (SOURCE, TARGET), edges, None),
    ]


def xml_suffix(path: Path, file: str) -> str:
    """Which format a file of XML is of; entities, by which a small file fills a memory, are refused.

    Raises:
        DataError: it is of none that is read.
    """
    try:
        outermost = ""
        for _, element in ElementTree.iterparse(str(path), ("start",), forbid_dtd=True):
            outermost = outermost or element.tag.rpartition("}")[2]
            element.clear()
    except DefusedXmlException as error:
        what = "declares a document type or entities, which may fill the memory"
        raise refused(file, what, "write it without") from error
    except SyntaxError as error:
        raise refused(file, f"is not whole XML ({shown(str(error))})", "copy it again") from error
    if outermost not in XML:
        raise refused(file, f"is XML of the kind {outermost}", f"give {' or '.join(XML)}")
    return XML[outermost]


def _table(
    file: str,
    name: str,
    form: str,
    first: tuple[str, ...],
    rows: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    directed: bool | None,
) -> Source:
    # An attribute that is called as an end of an edge is none.
    held = [
        {**own, **{f"{key} (attribute)" if key in own else key: value for key, value in data.items()}}
        for own, data in rows
    ]
    columns = (*first, *dict.fromkeys(key for row in held for key in row if key not in first))
    values = [[row.get(column) for column in columns] for row in held]
    found = source_of_rows(file, name, f"{name} of {form}", columns, lambda: values)
    return Source(file, name, found.columns, found.form, found.blocks, directed)
