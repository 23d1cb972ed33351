"""What a numpydoc docstring says, and what it refers to."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

SECTION = re.compile(r"^[ \t]*(?P<title>\S[^\n]*?)[ \t]*\n[ \t]*[-=]{3,}[ \t]*$", re.MULTILINE)
LEFT_OUT = {"see also", "examples", "example", "references"}
SILENT = {"examples", "example", "references"}
ROLE = re.compile(r":(?:py:)?(?:func|class|obj|meth|ufunc|data|attr):`(?:[^`<]*<)?~?!?([\w.]+)>?`")
BACKTICKED = re.compile(r"(?<![:`\w])(`{1,2})~?([A-Za-z_][\w.]*)(?:\(\))?\1(?!`)")
ENTRY = r"(?:[\w.]+|:\w+:`~?[\w.]+`|`{1,2}[\w.]+`{1,2})"
SEE_ALSO_NAMES = re.compile(rf"^{ENTRY}(?:\s*,\s*{ENTRY})*")
NAME = re.compile(r"[A-Za-z_][\w.]*")
PARAMETERS = {"parameters", "other parameters", "attributes", "returns", "yields"}


PRINTED_SET = re.compile(r"\{('[^'{}]*'(?:, '[^'{}]*')+)\}")
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Docstring:
    """Text without signature, See Also, Examples and References; and names that the docstring refers to."""

    text: str
    references: tuple[str, ...]

    @classmethod
    def of(cls, value: object) -> Docstring:
        """The docstring of a function or class; empty where it has none of its own."""
        raw = getattr(value, "__doc__", None)
        if not isinstance(raw, str):
            return cls("", ())
        return parse_docstring(reproducible(inspect.cleandoc(raw)), str(getattr(value, "__name__", "")))


def reproducible(doc: str) -> str:
    """The docstring without what changes from process to process: addresses, and the order of printed sets."""

    def in_order(match: re.Match[str]) -> str:
        return "{" + ", ".join(sorted(match[1].split(", "))) + "}"

    return PRINTED_SET.sub(in_order, ADDRESS.sub("", doc))


def parse_docstring(doc: str, name: str) -> Docstring:
    """Splits a clean numpydoc docstring.

    Args:
        doc: the docstring, its indentation removed.
        name: of the object, whose signature may open the docstring.
    """
    sections = _sections(doc)
    body = _without_signature(sections[0][1], name)
    kept = [body]
    parameters: set[str] = {name}
    references: dict[str, None] = {}
    for title, content in sections[1:]:
        if title.lower() not in LEFT_OUT:
            kept.append(f"{title}\n{content}".strip())
        if title.lower() in PARAMETERS:
            parameters |= _defined(content)
        if title.lower() == "see also":
            references.update(dict.fromkeys(_see_also(content)))
    spoken = [body, *(content for title, content in sections[1:] if title.lower() not in SILENT)]
    for content in spoken:
        references.update(dict.fromkeys(match.strip(".") for match in ROLE.findall(content)))
        quoted = (match[1].strip(".") for match in BACKTICKED.findall(content))
        # A backticked word is most often a parameter of the object itself.
        references.update(dict.fromkeys(word for word in quoted if word not in parameters))
    text = "\n\n".join(part for part in kept if part)
    return Docstring(text, tuple(reference for reference in references if reference))


def _sections(doc: str) -> list[tuple[str, str]]:
    """(title, content) of each section; the first has no title."""
    headers = list(SECTION.finditer(doc))
    starts = [0, *(header.end() for header in headers)]
    ends = [*(header.start() for header in headers), len(doc)]
    titles = ["", *(header["title"] for header in headers)]
    return [(title, doc[start:end].strip()) for title, start, end in zip(titles, starts, ends, strict=True)]


def _without_signature(body: str, name: str) -> str:
    """Leaves out opening paragraphs such as `jv(v, z, out=None)`, which compiled functions have."""
    signature = re.compile(rf"^(?:[\w, ]+=\s*)?(?:[\w.]+\.)?{re.escape(name)}\([^\n]*\)?(?:\s*->[^\n]*)?$")
    paragraphs = re.split(r"\n\s*\n", body)
    while paragraphs and signature.match(" ".join(paragraphs[0].split())):
        paragraphs.pop(0)
    return "\n\n".join(paragraphs).strip()


def _defined(section: str) -> set[str]:
    """Names that a Parameters section defines: those on unindented lines, before the colon."""
    lines = [line.partition(":")[0] for line in section.splitlines() if line and not line[0].isspace()]
    return {name for line in lines for name in NAME.findall(line)}


def _see_also(section: str) -> list[str]:
    """Names at the start of the unindented lines of a See Also section."""
    names: list[str] = []
    for line in section.splitlines():
        match = SEE_ALSO_NAMES.match(line)
        if match:
            without_roles = re.sub(r":\w+:", "", match[0])
            names.extend(word.strip(".") for word in NAME.findall(without_roles))
    return names
