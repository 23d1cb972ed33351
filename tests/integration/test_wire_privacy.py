"""Nothing that a client must keep is in any byte of any message."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.run.site_run import SiteRun
from fedtag.client.text.encoder import Encoder
from fedtag.common.config.ingredients import ingredients
from fedtag.common.errors import WireError
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.numerics.ranking import RANK_BINS
from fedtag.common.numerics.scores import CALIBRATION_BINS
from fedtag.common.wire.codec import Parcel, decode_instruction, decode_reply, encode, pack
from fedtag.common.wire.envelope import TENSORS, opened
from fedtag.common.wire.records import Content, Instruction, Letter, Reply
from fedtag.common.wording.features import encoder_features

if TYPE_CHECKING:
    from flwr.app import Message

    from tests.integration.conftest import Federated

WORD = re.compile(rb"[a-z0-9]+")
SHINGLE = 4
LEAST_CHARACTERS = 12  # shorter runs, such as "t h a w" in a scanned text, turn up in random bytes
OVERHEAD = 4096


def shingles(data: bytes) -> set[bytes]:
    """All runs of four words, whatever stands between them and in whatever case."""
    words = WORD.findall(data.lower())
    runs = (b" ".join(words[first : first + SHINGLE]) for first in range(len(words) - SHINGLE + 1))
    return {run for run in runs if len(run) >= LEAST_CHARACTERS}


def shingles_of(texts: Iterable[str]) -> set[bytes]:
    return set().union(*(shingles(text.encode()) for text in texts))


def wire_bytes(parcel: Parcel) -> bytes:
    return b"\0".join(parcel.objects.values())


def leaked(parcel: Parcel, secret: set[bytes]) -> set[bytes]:
    """Secret shingles in the bytes, or in the strings that JSON had escaped."""
    strings = [leaf for leaf in leaves(record_of(parcel).content.values) if isinstance(leaf, str)]
    return (shingles(wire_bytes(parcel)) | shingles_of(strings)) & secret


def record_of(parcel: Parcel) -> Instruction | Reply:
    message = parcel.open()
    try:
        return decode_reply(message.content, float("inf"))
    except WireError:
        return decode_instruction(message.content)


def leaves(value: Any) -> Iterator[Any]:
    """Everything in JSON that is not a table or a list."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from lists(part)


def sent(content: Content) -> Parcel:
    """The content as the reply of a client would travel."""
    from flwr.app import Message
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    record = Reply("run", 1, 1, "train", "client-00", content)
    message: Message = Message(encode(record), dst_node_id=2, message_type="train")
    return pack(message)


def own_vectors(session: SiteRun) -> Tensor:
    """Every vector from which a text could be told: documents, chunks, pooled and propagated ones."""
    bank, pooled = session.data.bank, session.data.bank.pooled(session.config.text.pool_sharpness)
    once = session.data.adjacency.propagate(pooled)
    rows = torch.cat([bank.document, bank.vectors, pooled, once, session.data.adjacency.propagate(once)])
    return rows[rows.norm(dim=1) > 0]


def same_rows(tensor: Tensor, secret: Tensor, tolerance: float = 1e-6) -> int:
    """How many rows or columns of a tensor are, up to a factor, a row of `secret`."""
    if tensor.dim() == 0 or not tensor.is_floating_point() or secret.shape[1] not in tensor.shape:
        return 0
    table = tensor.double().movedim(tensor.shape.index(secret.shape[1]), -1).reshape(-1, secret.shape[1])
    table = table[table.norm(dim=1) > 0]
    cosine = (
        torch.nn.functional.normalize(table, dim=1) @ torch.nn.functional.normalize(secret.double(), dim=1).T
    )
    return int((cosine > 1 - tolerance).any(1).sum()) if table.numel() else 0


@pytest.fixture(params=["dance_run", pytest.param("narrated_run", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest) -> Federated:
    captured: Federated = request.getfixturevalue(request.param)
    return captured


def test_the_search_finds_a_planted_text(dance_run: Federated) -> None:
    data = dance_run.sessions[0].data.text_graph
    text = next(text for text in data.texts if len(shingles_of([text])) > 20)
    secret = shingles_of(data.texts)
    words = text.split()
    middle = " ".join(words[5:10])
    assert not leaked(sent(Content({"update/w": torch.zeros(4)}, {"note": "of no interest"})), secret)
    as_bytes = torch.frombuffer(bytearray(middle.encode()), dtype=torch.uint8)
    for content in (
        Content(values={"note": text}),
        Content(values={"deep": [{"in": {"a": middle.upper().replace(" ", "\n")}}]}),
        Content({"update/w": as_bytes}),
        Content({f"update/{middle}": torch.zeros(1)}),
        Content(letters=(Letter("client-00", "client-01", "gift", middle.encode()),)),
    ):
        assert leaked(sent(content), secret)


def test_the_search_finds_a_planted_vector(dance_run: Federated) -> None:
    secret = own_vectors(dance_run.sessions[0])
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, secret.shape[1], generator=generator)
    assert same_rows(weight, secret) == 0
    weight[17] = 3 * secret[40]
    assert same_rows(weight, secret) == same_rows(weight.T, secret) == 1
    assert same_rows(secret[7], secret) == 1


def test_every_message_of_the_run_was_seen(run: Federated) -> None:
    exchanges = run.config.rounds + 1
    records = [record_of(parcel) for parcel in run.parcels]
    assert sum(isinstance(record, Instruction) for record in records) == 3 * exchanges
    assert sum(isinstance(record, Reply) for record in records) == 3 * exchanges
    assert {record.phase for record in records} == {"train", "close"}
    assert sum(parcel.size for parcel in run.parcels) == run.summary.bytes_up + run.summary.bytes_down


def test_no_text_no_evidence_no_summary_no_identifier(run: Federated) -> None:
    texts = [text for session in run.sessions for text in session.data.text_graph.texts]
    nodes = {str(node).encode() for session in run.sessions for node in session.data.text_graph.node_ids}
    packs = [
        pack
        for site in run.sites
        for folder in (site.evidence, site.evidence / "core")
        for number in available_rounds(folder)
        for pack in read_packs(round_file(folder, number))
    ]
    assert packs
    summaries = [pack.summary for pack in packs if pack.summary]
    assert bool(summaries) == bool(run.config.summaries.limit)
    # A language model may recite the class names, which everyone in the federation knows.
    secret = shingles_of([*texts, *summaries]) - shingles_of(
        [" ".join(run.sessions[0].data.text_graph.classes)]
    )
    digests = {chunk.sha256.encode() for pack in packs for chunk in pack.chunks}
    assert len(secret) > 5000
    assert digests
    identifier = re.compile(rb"paper-\d{4}-x")
    assert all(identifier.fullmatch(node) for node in nodes)
    digest = re.compile(rb"[0-9a-f]{64}")
    for parcel in run.parcels:
        data = wire_bytes(parcel)
        assert not leaked(parcel, secret)
        assert not identifier.search(data.lower())
        assert not set(digest.findall(data)) & digests


def test_messages_hold_nothing_that_is_not_decoded(run: Federated) -> None:
    """Header, tensors and a few kilobytes of Flower's own; tensors are plain, so nothing hides in them."""
    for parcel in run.parcels:
        content = parcel.open().content
        header, blob = str(content["header"]["json"]), opened(content).tensors or b""
        assert parcel.size - len(blob) - len(header.encode()) < OVERHEAD
        assert set(content) <= {"header", TENSORS}
        assert set(content["header"]) - {TENSORS} == {"protocol", "release", "json"}
        if blob:
            (length,) = struct.unpack("<Q", blob[:8])
            names = json.loads(blob[8 : 8 + length])
            assert "__metadata__" not in names
            tensors = safetensors.torch.load(blob)
            payload = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
            assert len(blob) == 8 + length + payload


def test_values_are_numbers_and_agreed_names(run: Federated) -> None:
    """The only list is that of the classes, which the federation agreed upon; no label of a node is sent."""
    classes = list(run.sessions[0].data.text_graph.classes)
    clients = {site.name for site in run.sites}
    # Packages and versions of what the run is made of, as both sides have it installed.
    agreed = {
        *classes,
        encoder_features(Encoder().revision),
        "given",
        *map(str, leaves(ingredients(run.config))),
    }
    for parcel in run.parcels:
        record = record_of(parcel)
        assert not record.content.letters
        values = dict(record.content.values)
        assert all(found == classes for found in lists(values))
        for leaf in leaves(values):
            plain = isinstance(leaf, (bool, int, float)) or leaf is None or leaf in agreed
            assert plain or re.fullmatch("[0-9a-f]{64}", leaf)
        assert not isinstance(record, Reply) or record.client in clients


def test_tensors_are_of_declared_shapes_and_hold_no_vector_of_a_text(run: Federated) -> None:
    session = run.sessions[0]
    dimension, classes = session.data.graph.x.shape[1], len(session.data.text_graph.classes)
    model = initial_dance_model(run.config, dimension, classes).state_dict()
    shapes = {tuple(value.shape) for value in model.values()}
    fields = {
        "confusion": ((classes, classes), torch.int64),
        "bin_nodes": ((CALIBRATION_BINS,), torch.int64),
        "bin_confidence": ((CALIBRATION_BINS,), torch.float32),
        "bin_correct": ((CALIBRATION_BINS,), torch.int64),
        "ranks": ((2, classes, RANK_BINS), torch.int32),
    }
    secrets = {session.site.name: own_vectors(session) for session in run.sessions}
    everyone = torch.cat(list(secrets.values()))
    assert not any(session.data.graph.num_nodes in shape for session in run.sessions for shape in shapes)
    for parcel in run.parcels:
        record = record_of(parcel)
        for name, tensor in record.content.tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "scores":
                assert (tuple(tensor.shape), tensor.dtype) == fields[rest.rpartition("/")[2]]
                continue
            assert kind in {"model", "average", "best", "update"}
            assert tuple(tensor.shape) == tuple(model[rest].shape)
            secret = secrets[record.client] if isinstance(record, Reply) else everyone
            assert same_rows(tensor, secret) == 0
