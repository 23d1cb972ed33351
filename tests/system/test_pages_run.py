"""README and pages: every command and every Python block is carried out, page by page, in the order of the page."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import fedtag
from fedtag.client.policy.requests import Requests
from fedtag.common.secure.identity import Identity
from tests.integration.test_import import bibliography
from tests.system import transcript
from tests.system.runbook import CARRIED_OUT, NEEDS_MACHINES
from tests.system.runbook import blocks as runbook_blocks
from tests.system.transcript import EXECUTED, REPOSITORY, SHOWN, Block, BrokenPageError, Transcript, blocks
from tests.tiny import Tiny

# What commands wrote below results/ is as they wrote it; deploy/README.md has tests/system/test_hosts.py.
PAGES = ["README.md"]
PAGES += sorted(
    path.relative_to(REPOSITORY).as_posix()
    for folder in (REPOSITORY / "docs", REPOSITORY / "docs" / "methods")
    for path in folder.glob("*.md")
)
CARRIED_OUT_ELSEWHERE = "deploy/README.md"
# What no test carries out, and why: at most ten, with the blocks of the runbook that need machines.
NOT_RUN = {"make test": "it is what runs this test"}
# With the whole built-in graph, an environment of their own, whole comparisons, or texts that are cut and asked again:
# minutes each. The Python of docs/python.md is in great part that of the README.
SLOW = (
    "docs/comparing.md",
    "docs/extending.md",
    "docs/getting-started.md",
    "docs/methods/fedc4.md",
    "docs/own-data.md",
    "docs/python.md",
)
TOPICS = ("graph node edge degree path", "tree leaf root branch forest", "sum mean variance sample bound")
PAPERS = 100


def papers(count: int = PAPERS, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of papers with short abstracts on three topics, and of citations mostly within them."""
    rng = np.random.default_rng(seed)
    topic = np.arange(count) % 3
    words = [rng.choice(TOPICS[one].split(), 6) for one in topic]
    nodes = pd.DataFrame(
        {
            "paper": [f"paper-{row}" for row in range(count)],
            "abstract": [f"On {' '.join(chosen)}, part {row}." for row, chosen in enumerate(words)],
            "field": [TOPICS[one].split()[0] for one in topic],
        }
    )
    ends = [(row, (row + 3) % count) for row in range(count)]
    edges = pd.DataFrame([(f"paper-{a}", f"paper-{b}") for a, b in ends], columns=["citing", "cited"])
    return nodes, edges


def paper_graph(count: int = PAPERS, seed: int = 0, name: str = "papers") -> fedtag.Graph:
    nodes, edges = papers(count, seed)
    return fedtag.Graph.from_pandas(nodes, edges, id="paper", text="abstract", label="field", name=name)


@pytest.fixture
def page_folder(
    tmp_path: Path, one_thread: None, handed_over: None, monkeypatch: pytest.MonkeyPatch
) -> Transcript:
    """What pages take for granted: a folder of papers, three sites, a graph of features, tables in Python."""
    monkeypatch.setenv("COLUMNS", "200")
    whole = paper_graph()
    whole.to_folder(tmp_path / "FOLDER")
    sites = [paper_graph(30, seed, f"site-{letter}") for seed, letter in enumerate("abc")]
    for one in sites:
        one.to_folder(tmp_path / one.name)
    graph = whole.text_graph
    words = [word for topic in TOPICS for word in topic.split()]
    x = csr_matrix([[float(text.count(word)) for word in words] for text in graph.texts])
    np.savez(
        tmp_path / "graph.npz", x_data=x.data, x_indices=x.indices, x_indptr=x.indptr, x_shape=x.shape,
        y=graph.labels, edge_index=graph.edges.T, train_mask=graph.split == 1, val_mask=graph.split == 2,
        test_mask=graph.split == 3,
    )  # fmt: skip
    nodes, edges = papers()
    known = {
        "nodes": nodes, "edges": edges, "new_graph": paper_graph(seed=1),
        **dict(zip(("hospital_a", "hospital_b", "hospital_c"), sites, strict=True)),
    }  # fmt: skip
    return Transcript(tmp_path, tuple(NOT_RUN), known=known)


def an_audited_site(page: Transcript, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    """A run between sites that keep logs; the first one's workspace lies with its data."""
    run = replaced(tiny, page)(
        {"rounds": 2, "privacy.secure-aggregation": True, "privacy.roster": True}, rosters=True
    )
    assert run.error is None, run.notes.texts
    hospital = run.place / "site-0"
    shutil.copytree(run.sessions[0].site.folder, hospital, dirs_exist_ok=True)
    shutil.copy(run.place / "roster.toml", page.folder)
    shutil.copy(hospital / "audit" / "seals.jsonl", page.folder)
    key = Identity.at(run.place / "home" / "keys").public.sign.hex()
    patch.setenv("FEDTAG_HOME", str(run.place / "home"))
    page.stand_ins |= {
        "/data/hospital-a": str(hospital),
        "runs/first": str(run.place / "run"),
        "16d1…": key,
    }


def a_guarded_site(page: Transcript, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    """The same with the policy of the page."""
    an_audited_site(page, tiny, patch)
    (written,) = [block.text for block in blocks("docs/privacy.md") if block.language == "toml"]
    policy = page.folder / "etc" / "fedtag" / "policy.toml"
    policy.parent.mkdir(parents=True)
    kept = page.folder / "kept"
    kept.mkdir()
    policy.write_text(written.replace("/var/lib/fedtag-policy/hospital-a", str(kept)), encoding="utf-8")


def a_run_that_waits(page: Transcript, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    """A site whose policy lets each run wait."""
    policy = page.folder / "etc" / "fedtag" / "policy.toml"
    policy.parent.mkdir(parents=True)
    kept = page.folder / "kept"
    kept.mkdir()
    policy.write_text(f'folder = "{kept}"\napproval = "first"\n', encoding="utf-8")
    replaced(tiny, page)({"rounds": 1, "exchange.retries": 0}, policy=policy)
    (waiting,) = Requests(kept).waiting()
    page.stand_ins["RUN"] = waiting.run


def replaced(tiny: Tiny, page: Transcript) -> Tiny:
    """Runs on papers, in the folder of the page."""

    def write(path: Path, nodes: int, seed: int) -> Path:
        paper_graph(nodes, seed, path.name).to_folder(path)
        return path

    def place() -> Path:
        (page.folder / "federation").mkdir()
        return page.folder / "federation"

    (page.folder / "data").mkdir()
    return replace(tiny, write=write, data=page.folder / "data", new_place=place, folders={})


def a_bibliography(page: Transcript, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    """A table as a spreadsheet saves it; the first run of the page is of it, the second of papers."""
    (page.folder / "bibliography.csv").write_bytes(bibliography().encode("latin-1"))
    page.stand_ins["RUN_DIR"] = "RUN_B"


def a_checkout(page: Transcript, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    """Someone who reads the walk through the example stands in the repository."""
    shutil.copytree(
        REPOSITORY / "examples",
        page.folder / "examples",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"),
    )


# What a page needs that no command of it makes.
BEFORE: dict[str, Callable[[Transcript, Tiny, pytest.MonkeyPatch], None]] = {
    "docs/audit-log.md": an_audited_site,
    "docs/extending.md": a_checkout,
    "docs/own-data.md": a_bibliography,
    "docs/privacy.md": a_guarded_site,
    "docs/site-policy.md": a_run_that_waits,
}
# Methods whose rounds are divided need more than one.
FURTHER = {
    "docs/methods/fedgc.md": (
        "rounds=2",
        "fedgc.self-training-rounds=1",
        "fedgc.learn-from=both",
        "fedgc.min-class-count=1",
    )
}
# Rows of a page's comparison that must be there at its end.
COMPARED = dict.fromkeys(("README.md", "docs/python.md"), ("fedavg", "focal"))


def executed(page: str) -> list[Block]:
    return [block for block in blocks(page) if block.language in EXECUTED and not is_excerpt(block)]


def is_excerpt(block: Block) -> bool:
    """Whether a block is word for word from the file of the example that its first line names."""
    title, _, text = block.text.partition("\n")
    file = REPOSITORY / "examples" / "plugin" / title.removeprefix("# ")
    return title.startswith("# ") and file.is_file() and text in file.read_text(encoding="utf-8")


RUN = [page for page in PAGES if executed(page)]


@pytest.mark.parametrize(
    "page", [pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in RUN]
)
def test_what_a_page_says_can_be_done(
    page: str, page_folder: Transcript, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in BEFORE:
        BEFORE[page](page_folder, tiny, monkeypatch)
    page_folder.further = FURTHER.get(page, ())
    for block in executed(page):
        page_folder.carry_out(block)
    # A comparison goes on where one of its runs fails.
    for method in COMPARED.get(page, ()):
        table = pd.read_csv(page_folder.folder / "runs" / "comparison" / "comparison.csv")
        assert table.loc[table["row"] == method, "test"].notna().any()


def unclear(page: str) -> list[str]:
    """Code of a page of which nobody can tell whether it is to be carried out."""
    found = []
    for block in blocks(page):
        if block.language not in (*EXECUTED, *SHOWN):
            found.append(f"{page}:{block.line}: a block of '{block.language}'")
        elif block.language in SHOWN and re.search(
            r"^\$? ?(fedtag|make|pip|pytest) [a-z-]+", block.text, re.MULTILINE
        ):
            found.append(f"{page}:{block.line}: a command that is only shown")
    text = re.sub(
        r"^```.*?^```$", "", (REPOSITORY / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    found += [f"{page}: {line}" for line in text.splitlines() if re.match(r"fedtag [a-z-]+ .*--", line)]
    return found


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_code_is_carried_out_or_plainly_only_shown(page: str) -> None:
    assert unclear(page) == []


def left_out(pages: Iterable[str]) -> list[str]:
    """Blocks of commands or Python that are neither carried out nor listed as what needs machines."""
    found = []
    for page in pages:
        for block in executed(page):
            title = block.text.partition("\n")[0].removeprefix("# ")
            known = {**CARRIED_OUT, **NEEDS_MACHINES} if page == CARRIED_OUT_ELSEWHERE else {}
            if page not in RUN and title not in known:
                found.append(f"{page}:{block.line}")
    return found


def test_every_block_is_carried_out_or_listed() -> None:
    everywhere = [path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "docs").rglob("*.md")]
    assert left_out(["README.md", CARRIED_OUT_ELSEWHERE, *everywhere]) == []
    for title, place in CARRIED_OUT.items():
        assert f'"{title}"' in (REPOSITORY / place).read_text(encoding="utf-8")
    assert set(runbook_blocks()) == CARRIED_OUT.keys() | NEEDS_MACHINES.keys()


def test_a_block_that_nobody_carries_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "README.md").write_text(
        "```sh\n# server: dance\nls\n```\n```sh\n# server: train\n```\n"
    )
    (tmp_path / "page.md").write_text("```toml\na = 1\n```\n\n```python\n1 + 1\n```\n")
    for module in (transcript, sys.modules[__name__]):
        monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    assert left_out([CARRIED_OUT_ELSEWHERE, "page.md"]) == ["deploy/README.md:2", "page.md:6"]


def test_only_words_of_the_example_are_taken_for_an_excerpt() -> None:
    name = "fedtag_example/twice_linear.py"
    line = (REPOSITORY / "examples" / "plugin" / name).read_text(encoding="utf-8").splitlines()[0]
    found = [
        is_excerpt(Block("page.md", 1, "python", text))
        for text in (f"# {name}\n{line}\n", f"# {name}\n{line} changed\n", f"# none.py\n{line}\n", "1 + 1\n")
    ]
    assert found == [True, False, False, False]


def test_few_commands_are_not_carried_out() -> None:
    written = {
        line.partition("#")[0].strip()
        for page in PAGES
        for block in executed(page)
        for line in block.text.splitlines()
    }
    assert set(NOT_RUN) <= written
    assert len(NOT_RUN) + len(NEEDS_MACHINES) <= 10
    assert all(NOT_RUN.values())


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "deploy/README.md"])
def test_targets_of_make_are_there(page: str) -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {
        word for block in blocks(page) for word in re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)
    }
    assert named <= targets


WRONG = {
    "```sh\ntrue\nfedtag validate FOLDER\nfedtag validate nowhere\n```": "page.md:4: fedtag validate nowhere",
    "# T\n\n```sh\nfedtag simulate --data FOLDER --client 2\n```": "page.md:4: fedtag simulate",
    "```sh\nfedtag validate FOLDER  # fails\n```": "page.md:2: ",
    "a\n```python\nx = 1\nx + y\n```": "page.md:4: NameError",
    "```python\nimport fedtag\nfedtag.open_run('none')\n```": "page.md:3: RunError",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_broken_page_is_named_with_its_line(
    text: str, page_folder: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    (page_folder.folder / "page.md").write_text(text + "\n", encoding="utf-8")
    monkeypatch.setattr(transcript, "REPOSITORY", page_folder.folder)
    (block,) = blocks("page.md")
    with pytest.raises(BrokenPageError, match=re.escape(WRONG[text])):
        page_folder.carry_out(block)


def test_code_that_nobody_would_carry_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x\n\n    fedtag doctor\n\n```text\nfedtag doctor\n```\n\n```bash\nls\n```\n\nfedtag compare --seeds 5\n"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    for module in (transcript, sys.modules[__name__]):
        monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    assert [line.split(" ", 1)[0] for line in unclear("page.md")] == [
        "page.md:3:",
        "page.md:6:",
        "page.md:10:",
        "page.md:",
    ]


def test_options_of_the_page_are_read_as_they_stand() -> None:
    words = ["simulate", "--rounds", "100", "--data", "a"]
    assert transcript.smaller(words)[: len(words)] == words
    assert transcript.smaller(["audit", "RUN_DIR"]) == ["audit", "RUN_DIR"]
    assert transcript.smaller(["simulate", "--resume", "RUN_DIR"]) == ["simulate", "--resume", "RUN_DIR"]
