"""The figure of how fedtag works: whole, readable for everybody, and true as far as pages and tests say so."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from matplotlib.font_manager import FontProperties, findfont, get_font

from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS

REPOSITORY = Path(__file__).resolve().parents[2]
FILE = REPOSITORY / "docs" / "how-it-works.svg"
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "desc", "style", "g", "rect", "text", "tspan", "path"}
# Of the pages in which it stands: GitHub and Material, light and dark.
PAGES = {"light": ("#ffffff", "#ffffff"), "dark": ("#0d1117", "#1e2129")}
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
HEADINGS = {
    "Institution A",
    "Institutions B, C, …",
    "Coordinator",
    "Auditor",
    "sees",
    "does",
    "in no message",
}
HEADINGS |= {"keep theirs, and see", "Trains what it received"}


class Claim(NamedTuple):
    """Where a line of the figure is said in full, and which test tries it."""

    page: str
    sentence: str
    test: str


NO_MESSAGE = Claim(
    "docs/threat-model.md",
    "Texts, evidence, summaries and edges among its nodes are in no message of a site",
    "integration/test_wire_privacy.py::test_no_text_no_evidence_no_summary_no_identifier",
)
SUMS = Claim(
    "docs/threat-model.md",
    "| curious server | masks | sums over all, or of groups of three to five; counts, scores |",
    "integration/test_secure_summation.py::test_a_transcript_with_dropouts_opens_no_single_update",
)
CLEAR = Claim(
    "docs/threat-model.md",
    "| curious server | clear | every update, counts, scores |",
    "integration/test_wire_privacy.py::test_tensors_are_of_declared_shapes_and_hold_no_vector_of_a_text",
)
HIDDEN = Claim(
    "docs/threat-model.md",
    "sums of updates, counts, losses and scores",
    "integration/test_secure_runs.py::test_nothing_of_a_single_client_is_told_when_statistics_are_hidden",
)
ENVELOPES = Claim(
    "docs/threat-model.md",
    "The server sees who writes to whom, how much",
    "integration/test_client_letters.py::test_the_server_sees_envelopes_that_it_cannot_open",
)
SEALED = Claim(
    "docs/threat-model.md",
    "altered, misaddressed and replayed ones do not open",
    "integration/test_client_letters.py::test_envelopes_that_the_server_meddles_with_are_refused_and_the_run_goes_on",
)
ALWAYS = Claim(
    "docs/threat-model.md",
    "*In every mode*, of each site: its name, presence, timing, durations by phase, sizes of messages",
    "integration/test_wire_privacy.py::test_every_message_of_the_run_was_seen",
)
MODELS = Claim(
    "docs/threat-model.md",
    "The sites learn every global model, and in secure sums the names, public keys and weights of all members",
    "attacks/test_lying_server.py::test_others_get_another_model",
)
ALIKE = Claim(
    "docs/threat-model.md",
    "masks with keys that are derived from all that it was asked for",
    "attacks/test_lying_server.py::test_others_run_with_other_settings",
)
CHOICE = Claim(
    "docs/threat-model.md",
    "The released round is chosen by a mean of `evaluation.metric` over clients with capped numbers of nodes",
    "attacks/test_claims.py::test_nobody_chooses_the_released_round",
)
RELEASE = Claim(
    "docs/audit-log.md",
    "at the coordinator SHA-256 of model.safetensors, README.md, disclosures.jsonl",
    "integration/test_audit_logs.py::test_another_model_is_found",
)
LOGGED = Claim(
    "docs/audit-log.md",
    "**No text, label or node is in it.**",
    "integration/test_audit_logs.py::test_a_run_of_any_kind_is_logged_without_its_data",
)
CLAIMS = {
    "fedtag serve site": Claim(
        "docs/threat-model.md",
        "`fedtag serve site` runs the fedtag that is installed there, whatever the app holds",
        "attacks/test_hostile_bundle.py::test_nothing_of_a_bundle_runs_at_a_site",
    ),
    "Texts": NO_MESSAGE,
    "Edges among its nodes": NO_MESSAGE,
    "Evidence: words it quotes": NO_MESSAGE,
    "Summaries of texts": NO_MESSAGE,
    "Private keys, policy": Claim(
        "docs/threat-model.md",
        "the site's keys and the secrets of coming sums lie on its disk, the last two readable by their owner only",
        "integration/test_secure_runs.py::test_secrets_stay_at_the_site",
    ),
    "its policy lets out": Claim(
        "docs/site-policy.md",
        "every instruction is checked before anything of the data is read, and every reply before it leaves",
        "attacks/test_policy.py::test_what_no_rule_foresaw_does_not_leave_either",
    ),
    "updates": SUMS,
    "masked, or in clear": CLEAR,
    "counts, scores": CLEAR,
    "in clear, or masked": HIDDEN,
    "letters": ENVELOPES,
    "sealed for a peer": ENVELOPES,
    "names, keys, times": ALWAYS,
    "in clear": ALWAYS,
    "model, settings": MODELS,
    "a bundle’s code is refused": Claim(
        "docs/threat-model.md",
        "one with more than settings is refused before anything of it is unpacked or imported",
        "attacks/test_hostile_bundle.py::test_a_bundle_with_a_file_is_refused_with_its_name",
    ),
    "Sums of updates;": SUMS,
    "in clear, each one": CLEAR,
    "Counts and scores,": CLEAR,
    "or sums of them": HIDDEN,
    "Who writes to whom,": ENVELOPES,
    "and how much": ENVELOPES,
    "Names, keys, times,": ALWAYS,
    "sizes, global models": ALWAYS,
    "Adds up": SUMS,
    "Passes letters on": ENVELOPES,
    "Picks by validation, or": CHOICE,
    "takes the last round": HIDDEN,
    "Releases a model or": RELEASE,
    "graph, and a card": RELEASE,
    "Every global model": MODELS,
    "Letters sealed for them": SEALED,
    "as they were sealed": SEALED,
    "Under masks, who adds up": MODELS,
    "under masks, the same": ALIKE,
    "sealed audit logs": LOGGED,
    "card, log, disclosures": RELEASE,
    "Sees times, digests and kinds of records, and whether they agree. No text, no label.": LOGGED,
}


@pytest.fixture(scope="module")
def figure() -> ElementTree.Element:
    return ElementTree.parse(FILE).getroot()


def local(element: ElementTree.Element) -> str:
    return element.tag.removeprefix(SVG)


def lines(figure: ElementTree.Element) -> list[str]:
    return [" ".join("".join(text.itertext()).split()) for text in figure.iter(f"{SVG}text")]


def rules(figure: ElementTree.Element, scheme: str) -> dict[str, dict[str, str]]:
    """Declarations by selector, as they hold in a colour scheme."""
    style = "".join(figure.find(f"{SVG}style").itertext())  # type: ignore[union-attr]
    always, dark = re.split(r"@media \(prefers-color-scheme: dark\) \{", style)
    found: dict[str, dict[str, str]] = {}
    for part in (always, dark) if scheme == "dark" else (always,):
        for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", part):
            declared = dict(re.findall(r"([a-z-]+): ([^;]+);", body))
            for selector in selectors.split(","):
                found.setdefault(selector.strip(), {}).update(declared)
    return found


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def framed(group: ElementTree.Element, around: str = "lane") -> Iterator[tuple[ElementTree.Element, str]]:
    """Texts with the class of the box in which they stand; a lane lies on the page."""
    frame = group.find(f"{SVG}rect")
    inside = around if frame is None else frame.get("class", "")
    for child in group:
        if local(child) == "g":
            yield from framed(child, inside)
        elif local(child) == "text":
            yield child, inside


def test_it_is_drawn_from_text_alone(figure: ElementTree.Element) -> None:
    assert {local(element) for element in figure.iter()} <= DRAWN
    source = FILE.read_text(encoding="utf-8")
    assert not re.search(r"url\(|@font-face|@import|data:|href|<script|base64", source)
    assert len(source) < 16_000


def test_it_scales_into_a_narrow_page(figure: ElementTree.Element) -> None:
    left, top, width, height = map(float, figure.get("viewBox", "").split())
    assert (left, top) == (0, 0)
    assert figure.get("height") is None, "a fixed height would keep it from scaling"
    assert float(figure.get("width", "")) == width
    for rect in figure.iter(f"{SVG}rect"):
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= width
        assert float(rect.get("y", "")) + float(rect.get("height", "")) <= height


def test_who_listens_to_a_page_gets_title_and_description(figure: ElementTree.Element) -> None:
    assert figure.get("role") == "img"
    named = (figure.get("aria-labelledby") or "").split()
    told = {element.get("id"): " ".join((element.text or "").split()) for element in figure}
    assert [figure.find(f"{SVG}{tag}").get("id") for tag in ("title", "desc")] == named  # type: ignore[union-attr]
    assert all(len(told[name]) > 10 for name in named)


@pytest.mark.parametrize("scheme", PAGES)
def test_every_line_can_be_read(figure: ElementTree.Element, scheme: str) -> None:
    style = rules(figure, scheme)
    for text, frame in framed(figure):
        classes = (text.get("class") or "").split()
        colour = style["text"]["fill"]
        for selector in (*(f".{one}" for one in classes), *(f"text.{one}" for one in classes)):
            colour = style.get(selector, {}).get("fill", colour)
        for ground in PAGES[scheme] if frame == "lane" else (style[f".{frame}"]["fill"],):
            assert contrast(colour, ground) >= LEAST_CONTRAST, (text.text, scheme, colour, ground)


def test_every_line_lies_in_its_box(figure: ElementTree.Element) -> None:
    """Measured in DejaVu Sans, which is wider than the fonts that are asked for."""
    style = rules(figure, "light")
    for group in figure.iter(f"{SVG}g"):
        frame = group.find(f"{SVG}rect")
        if frame is None:
            continue
        left, right = float(frame.get("x", "")), float(frame.get("x", "")) + float(frame.get("width", ""))
        for text in group.findall(f"{SVG}text"):
            kind = style["." + (text.get("class") or "").split()[0]]
            font = get_font(
                findfont(FontProperties(family="DejaVu Sans", weight=kind.get("font-weight", "normal")))
            )
            font.set_size(float(kind["font-size"][:-2]), 72)
            share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
            for line in text.findall(f"{SVG}tspan") or [text]:
                font.set_text(line.text or "")
                width = font.get_width_height()[0] / 64
                start = float(line.get("x", "")) - share * width
                assert left <= start, line.text
                assert start + width <= right, line.text


def test_what_it_says_is_said_in_full_on_a_page_and_tried_by_a_test(figure: ElementTree.Element) -> None:
    said = set(lines(figure)) - HEADINGS
    assert said == set(CLAIMS)
    for line, claim in CLAIMS.items():
        page = " ".join((REPOSITORY / claim.page).read_text(encoding="utf-8").split())
        assert claim.sentence in page, line
        file, name = claim.test.split("::")
        source = (REPOSITORY / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name}(" in source, line


def test_its_arrows_carry_every_record_that_crosses(figure: ElementTree.Element) -> None:
    """A record that leaves a site goes along one arrow to the right; what the server sends comes back along another."""
    known = {
        record.name: record
        for records in (BASE_RECORDS, *(spec.records for spec in built_in()))
        for record in records
    }
    lanes = [set(group.get("data-records", "").split()) for group in figure.iter(f"{SVG}g")]
    *out, back, passed_on = [lane for lane in lanes if lane]
    assert sum(map(len, out)) == len(set().union(*out))
    working = {"working"}  # Signs on the way, and no value of a reply.
    assert set().union(*out) == {name for name, record in known.items() if record.leaves} | working
    assert back == {name for name, record in known.items() if not record.leaves} - working
    assert {name for name, record in known.items() if record.form == "letter"} <= passed_on
    assert passed_on in out


def built_in() -> Iterator[object]:
    for registry in (METHODS, PARTS):
        yield from registry.usable().values()


@pytest.mark.parametrize(
    ("page", "link"), [("README.md", "docs/how-it-works.svg"), ("docs/index.md", "how-it-works.svg")]
)
def test_pages_show_it_and_say_what_is_in_it(page: str, link: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    (alternative,) = re.findall(rf"!\[([^\]]+)\]\({re.escape(link)}\)", text)
    assert len(alternative) > 40
