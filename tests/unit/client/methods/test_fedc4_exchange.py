"""Three clients of FedC4 and a postman who carries their letters, without any server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from fedtag.client.context.messages import Messages
from fedtag.client.methods.fedc4.exchange import receive_nodes, send_nodes, send_portraits
from fedtag.client.methods.fedc4.memory import Memory
from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered
from fedtag.common.graph import Graph
from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.names import PEERS
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content, Instruction, Letter

NAMES = ("a", "b", "c")
CORE = 6
SETTINGS = FedC4Config(cut=1.0, threshold=0.0)


def core(place: int) -> Condensed:
    generator = torch.Generator().manual_seed(place)
    x = torch.randn(CORE, 4, generator=generator) + place
    return Condensed.without_links(x, torch.arange(CORE) % 2, copies=False)


def local_graph() -> Graph:
    empty = torch.zeros(3, dtype=torch.bool)
    return Graph(
        torch.zeros(3, 4),
        torch.zeros(2, 0).long(),
        torch.zeros(0),
        torch.zeros(3).long(),
        empty,
        empty,
        empty,
        2,
    )


class Ring:
    """Messages of all clients, step by step."""

    def __init__(self, folder: Path) -> None:
        self.sites = {name: Site(name, folder, folder / name, folder / "cache") for name in NAMES}
        self.keys = {name: Identity.at(site.keys).public.as_json() for name, site in self.sites.items()}
        self.cores = {name: core(place) for place, name in enumerate(NAMES)}
        self.memories = dict.fromkeys(NAMES, Memory())
        self.letters: list[Letter] = []
        self.step = 0

    def exchange(self) -> dict[str, Messages]:
        """Open every messages with what was sent since the last exchange."""
        self.step += 1
        opened = {}
        for name, site in self.sites.items():
            mine = tuple(letter for letter in self.letters if letter.recipient == name)
            content = Content({}, {PEERS: self.keys}, mine)
            opened[name] = Messages(site, Instruction("run", self.step, self.step, "train", content), 1e6)
        self.letters = []
        return opened

    def portraits(self, settings: FedC4Config = SETTINGS, number: int = 1) -> None:
        for name, messages in self.exchange().items():
            self.memories[name] = send_portraits(
                self.memories[name], messages, self.cores[name].x, settings, number, seed=0
            )
            self.letters += messages.outgoing

    def nodes(self, settings: FedC4Config = SETTINGS) -> dict[str, Mapping[str, int]]:
        counts = {}
        for name, messages in self.exchange().items():
            self.memories[name], counts[name] = send_nodes(
                self.memories[name], messages, name, self.cores[name], settings, seed=0
            )
            self.letters += messages.outgoing
        return counts

    def received(self) -> None:
        for name, messages in self.exchange().items():
            self.memories[name] = receive_nodes(self.memories[name], messages, local_graph())


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return Ring(tmp_path)


def test_nodes_arrive_where_they_are_alike_and_once(ring: Ring) -> None:
    ring.portraits()
    assert {(letter.sender, letter.recipient) for letter in ring.letters} == {
        (one, other) for one in NAMES for other in NAMES if one != other
    }
    counts = ring.nodes()
    ring.received()
    centre = torch.stack([ring.cores[name].x.mean(0) for name in NAMES]).mean(0)
    for name, memory in ring.memories.items():
        expected = []
        for sender in NAMES:
            if sender == name:
                continue
            away = ring.cores[name].x.mean(0) - centre
            likeness = (ring.cores[sender].x - centre) @ away
            chosen = torch.nonzero(likeness > 0).squeeze(1).tolist()
            assert counts[sender].get(name, 0) == len(chosen)
            expected += [(sender, place) for place in chosen]
        assert list(memory.origin) == expected
        assert memory.x is not None
        assert memory.y is not None
        assert torch.equal(memory.x, torch.stack([ring.cores[sender].x[place] for sender, place in expected]))
        assert memory.y.tolist() == [int(ring.cores[sender].y[place]) for sender, place in expected]
    ring.portraits()
    assert all(count == {} for count in ring.nodes().values()), "nothing that a peer has is sent again"


def test_without_a_selector_the_cluster_gets_everything(ring: Ring) -> None:
    settings = FedC4Config(exchange="cluster", clusters=2)
    ring.portraits(settings)
    counts = ring.nodes(settings)
    together = {name: set(memory.cluster) - {name} for name, memory in ring.memories.items()}
    assert sorted(map(len, together.values())) == [0, 1, 1]
    assert {name: set(count) for name, count in counts.items()} == together
    assert all(shown == CORE for count in counts.values() for shown in count.values())


def test_broadcast_shows_everything_to_everybody(ring: Ring) -> None:
    settings = FedC4Config(exchange="broadcast", cut=0.0)
    ring.portraits(settings)
    assert ring.nodes(settings) == {
        name: dict.fromkeys([peer for peer in NAMES if peer != name], CORE) for name in NAMES
    }


def test_statistics_go_to_all_only_every_so_often(ring: Ring) -> None:
    settings = FedC4Config(clusters=2, recluster=5)
    ring.portraits(settings)
    ring.nodes(settings)
    sent = {}
    for number in range(2, 7):
        ring.portraits(settings, number)
        sent[number] = len(ring.letters)
        ring.nodes(settings)
    assert sent == {2: 2, 3: 2, 4: 2, 5: 2, 6: 6}


def test_real_nodes_go_to_nobody(ring: Ring, caplog: pytest.LogCaptureFixture) -> None:
    settings = FedC4Config(exchange="broadcast")
    ring.cores["a"] = Condensed.without_links(ring.cores["a"].x, ring.cores["a"].y, copies=True)
    ring.portraits(settings)
    counts = ring.nodes(settings)
    assert counts["a"] == {}
    assert counts["b"] == {"a": CORE, "c": CORE}
    assert not any(letter.sender == "a" for letter in ring.letters)
    assert "condensed nodes of a are real ones" in caplog.text


def test_an_exchange_without_portraits_leaves_the_cluster(ring: Ring) -> None:
    ring.portraits()
    ring.nodes()
    before = {name: memory.cluster for name, memory in ring.memories.items()}
    ring.letters = []
    assert ring.nodes() == {name: {} for name in NAMES}
    assert {name: memory.cluster for name, memory in ring.memories.items()} == before


def test_between_portraits_of_all_a_cluster_only_splits(ring: Ring) -> None:
    settings = FedC4Config(cut=0.6)
    ring.portraits(settings)
    ring.nodes(settings)
    before = {name: set(memory.cluster) for name, memory in ring.memories.items()}
    assert sorted(map(len, before.values())) == [1, 2, 2]
    apart = next(name for name, cluster in before.items() if len(cluster) == 2)
    ring.portraits(settings, 2)
    ring.nodes(settings)
    assert {name: set(memory.cluster) for name, memory in ring.memories.items()} == before
    ring.cores[apart] = Condensed.without_links(100 * ring.cores[apart].x, ring.cores[apart].y, copies=False)
    ring.portraits(settings, 3)
    ring.nodes(settings)
    assert all(len(memory.cluster) == 1 for memory in ring.memories.values())


def test_a_newcomer_is_told_at_once(ring: Ring) -> None:
    everybody = ring.keys
    ring.keys = {name: everybody[name] for name in "ab"}
    del ring.sites["c"]
    settings = FedC4Config(clusters=2)
    ring.portraits(settings)
    ring.nodes(settings)
    ring.keys = everybody
    ring.portraits(settings, 2)
    assert {letter.recipient for letter in ring.letters} == {"c"}
    ring.nodes(settings)
    ring.portraits(settings, 3)
    assert ring.letters == []


def test_who_has_no_node_writes_to_nobody(ring: Ring) -> None:
    ring.cores["a"] = Condensed.without_links(torch.zeros(0, 4), torch.zeros(0).long(), copies=False)
    ring.portraits()
    assert {letter.sender for letter in ring.letters} == {"b", "c"}
    assert ring.nodes()["a"] == {}
    assert all(letter.recipient != "a" for letter in ring.letters)


def test_peers_see_one_draw_of_noise_and_the_client_its_own_nodes(ring: Ring) -> None:
    settings = FedC4Config(exchange="broadcast", noise=0.5)
    ring.portraits(settings)
    ring.nodes(settings)
    ring.received()
    seen = []
    for name in "bc":
        memory = ring.memories[name]
        assert memory.x is not None
        rows = [place for place, (sender, _) in enumerate(memory.origin) if sender == "a"]
        seen.append(memory.x[rows])
    assert torch.equal(seen[0], seen[1])
    difference = seen[0] - ring.cores["a"].x
    assert 0.1 < float(difference.abs().mean()) < 2
    assert torch.equal(ring.cores["a"].x, core(0).x)


@pytest.mark.parametrize(
    "tensors",
    [
        {"x": torch.zeros(1, 3), "y": torch.zeros(1).long(), "place": torch.zeros(1).long()},
        {"x": torch.full((1, 4), torch.nan), "y": torch.zeros(1).long(), "place": torch.zeros(1).long()},
        {"x": torch.zeros(1, 4), "y": torch.full((1,), 2), "place": torch.zeros(1).long()},
        {"x": torch.zeros(1, 4), "y": torch.zeros(2).long(), "place": torch.zeros(1).long()},
        {"x": torch.zeros(1, 4), "y": torch.zeros(1).long()},
    ],
)
def test_nodes_that_do_not_fit_are_left_out_and_told(
    ring: Ring, tensors: Mapping[str, torch.Tensor], caplog: pytest.LogCaptureFixture
) -> None:
    messages = ring.exchange()["a"]
    messages.send("b", NODES, Content(tensors))
    ring.letters = messages.outgoing
    reader = ring.exchange()["b"]
    assert receive_nodes(Memory(), reader, local_graph()).origin == ()
    assert reader.unopened == ("a",)
    assert "a letter of a is left out" in caplog.text


def test_portraits_that_do_not_fit_are_left_out(ring: Ring) -> None:
    ring.portraits()
    kept = [letter for letter in ring.letters if letter.sender != "a"]
    stray = ring.exchange()["a"]
    stray.send("b", PORTRAIT, Content({"mean": torch.zeros(9), "spectrum": torch.zeros(1, 2)}))
    ring.letters = [*kept, *stray.outgoing]
    reader = ring.exchange()["b"]
    memory, _ = send_nodes(ring.memories["b"], reader, "b", ring.cores["b"], SETTINGS, seed=0)
    assert reader.unopened == ("a",)
    assert memory.cluster == ("b", "c")


def test_a_memory_comes_back_from_disk(ring: Ring) -> None:
    ring.portraits()
    ring.nodes()
    ring.received()
    memory = ring.memories["b"]
    tensors, values = memory.saved()
    back = Memory.of(Remembered(tensors, values), torch.device("cpu"))
    for name, value in vars(memory).items():
        found = getattr(back, name)
        assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, name
