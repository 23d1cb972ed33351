from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.secure.identity import IDENTITY_FILE, Identity, PublicIdentity
from fedtag.common.secure.roster import read_roster, roster_entry


@pytest.fixture
def three(tmp_path: Path) -> tuple[Identity, Identity, Identity]:
    first, second, third = (Identity.at(tmp_path / name) for name in ("a", "b", "c"))
    return first, second, third


def test_an_identity_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    first = Identity.at(tmp_path / "site")
    file = tmp_path / "site" / IDENTITY_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir()] == [IDENTITY_FILE]
    before = file.read_bytes()
    assert Identity.at(tmp_path / "site").public == first.public
    assert file.read_bytes() == before
    assert Identity.at(tmp_path / "other").public != first.public


def test_many_at_once_get_one_identity(tmp_path: Path) -> None:
    found: list[PublicIdentity] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append(Identity.at(tmp_path / "site").public)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_damaged_or_unreachable_identity_is_named(tmp_path: Path) -> None:
    (tmp_path / IDENTITY_FILE).write_bytes(b"short")
    with pytest.raises(ConfigError, match="is damaged: restore it"):
        Identity.at(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used"):
        Identity.at(tmp_path / "file")


def test_a_letter_opens_for_its_recipient_sender_and_context_only(
    three: tuple[Identity, Identity, Identity],
) -> None:
    a, b, c = three
    sealed = a.seal_for(b.public, b"context", b"secret text")
    assert b"secret text" not in sealed
    assert b.open_from(a.public, b"context", sealed) == b"secret text"
    assert a.seal_for(b.public, b"context", b"secret text") != sealed  # a nonce of its own
    wrong = [
        (c, a.public, b"context", sealed),
        (b, c.public, b"context", sealed),
        (b, a.public, b"another", sealed),
        (a, b.public, b"context", sealed),  # turned back to its sender
        (b, a.public, b"context", sealed[:-1]),
        (b, a.public, b"context", b""),
        *(
            (b, a.public, b"context", sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
            for place in range(len(sealed))
        ),
    ]
    for reader, sender, context, body in wrong:
        with pytest.raises(ProtocolError, match="a letter was altered"):
            reader.open_from(sender, context, body)


def test_signatures_are_ed25519(three: tuple[Identity, Identity, Identity]) -> None:
    a, b, _ = three
    signature = a.sign(b"statement")
    Ed25519PublicKey.from_public_bytes(a.public.sign).verify(signature, b"statement")
    assert a.public.verify(b"statement", signature)
    assert not a.public.verify(b"other", signature)
    assert not b.public.verify(b"statement", signature)
    assert not a.public.verify(b"statement", signature[:-1])
    assert not PublicIdentity(a.public.seal, b"\xff" * 32).verify(b"statement", signature)


def test_public_keys_cross_as_text(three: tuple[Identity, Identity, Identity]) -> None:
    public = three[0].public
    assert PublicIdentity.from_json(public.as_json(), "a") == public
    assert set(public.as_json()) == {"seal", "sign"}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=70)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.one_of(JSON, st.fixed_dictionaries({"seal": JSON, "sign": JSON})))
def test_anything_else_is_a_breach_of_protocol(value: object) -> None:
    with pytest.raises(ProtocolError, match="of mallory"):
        PublicIdentity.from_json(value, "mallory")


def test_a_degenerate_sealing_key_is_refused(three: tuple[Identity, Identity, Identity]) -> None:
    with pytest.raises(ProtocolError, match="protects nothing"):
        PublicIdentity.from_json({**three[0].public.as_json(), "seal": "00" * 32}, "mallory")


def test_a_roster_is_what_was_pasted(tmp_path: Path, three: tuple[Identity, Identity, Identity]) -> None:
    names = ("hospital-a", "St. Mary @north", "Ärzte")
    file = tmp_path / "roster.toml"
    file.write_text(
        "".join(roster_entry(n, i.public) for n, i in zip(names, three, strict=True)), encoding="utf-8"
    )
    assert read_roster(file) == {name: one.public for name, one in zip(names, three, strict=True)}


def test_a_bad_roster_says_what_to_do(tmp_path: Path, three: tuple[Identity, Identity, Identity]) -> None:
    entry = roster_entry("a", three[0].public)
    cases = {
        "": "is empty: paste an entry",
        "a = ": "is no TOML",
        entry + entry: "has more than one entry of a: keep the one",
        entry
        + roster_entry("a", three[1].public).replace("[a]", '[ "a" ]'): "has more than one entry of a: keep",
        entry + 'seal = "00"': "is no TOML",
        'a = "text"': "the keys of a must be a table of seal and sign.*paste the entry of a again",
        entry.replace(three[0].public.seal.hex(), "00"): "the sealing key of a must be 64",
        entry + roster_entry("b", three[0].public): r"one key for several institutions \(a, b\): paste",
        entry
        + roster_entry("b", three[1].public).replace(
            three[1].public.sign.hex(), three[0].public.sign.hex()
        ): r"one key for several institutions \(a, b\): paste",
        "".join(roster_entry(name, three["aab".index(name[0])].public) for name in ("a1", "a2", "a3", "b")): (
            r"one key for several institutions \(a1, a2, a3\): paste"
        ),
        entry.replace("[a]", '["a/b"]'): "is no name of an institution",
    }
    for text, message in cases.items():
        (tmp_path / "roster.toml").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_roster(tmp_path / "roster.toml")
    (tmp_path / "roster.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no TOML"):
        read_roster(tmp_path / "roster.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_roster(tmp_path / "missing.toml")


def test_two_sites_derive_one_key_that_nobody_else_has(three: tuple[Identity, Identity, Identity]) -> None:
    one, two, other = three
    key = one.key_with(two.public, b"context")
    assert key == two.key_with(one.public, b"context")
    assert len(key) == 32
    different = {
        one.key_with(two.public, b"another"),
        one.key_with(other.public, b"context"),
        two.key_with(other.public, b"context"),
    }
    assert len(different) == 3
    assert key not in different
