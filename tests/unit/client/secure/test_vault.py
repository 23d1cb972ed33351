from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fedtag.client.secure import vault as vault_module
from fedtag.client.secure.vault import VAULT_FILE, Vault
from fedtag.common.errors import ProtocolError

if TYPE_CHECKING:
    from tests.unit.client.secure.conftest import Sites


def test_holdings_come_back_as_they_were(sites: Sites) -> None:
    sites.joined(2)
    sites["a"].mask(0, np.zeros(3), dict.fromkeys("abcd", 0.25), bytes(32))
    sites["a"].sign({"opened": [], "index": 0, "survivors": ["a", "b", "c"]})
    vault = Vault(sites.folder / "a" / "secure" / "run-1", "a")
    held = vault.load()
    assert held is not None
    assert (held.masked, held.signed, held.released) == (0, ("a", "b", "c"), None)
    assert set(held.secrets) == {1}
    vault.save(held)
    assert vault.load() == held
    assert (sites.folder / "a" / "secure" / "run-1" / VAULT_FILE).stat().st_mode & 0o777 == 0o600


def test_a_vault_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert Vault(tmp_path / "run-1", "a").load() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"null", b"\xff", b'{"plan": 3}'])
def test_a_damaged_vault_is_refused_without_its_path(sites: Sites, content: bytes) -> None:
    block = sites.joined(1)
    folder = sites.folder / "a" / "secure" / "run-1"
    (folder / VAULT_FILE).write_bytes(content)
    with pytest.raises(ProtocolError, match="is damaged at a: delete it there") as caught:
        sites["a"].join(block.as_json(), sites.for_site("a"))
    assert str(sites.folder) not in str(caught.value)


def test_two_messages_are_not_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "LOCK_SECONDS", 0.05)
    vault, other = Vault(tmp_path / "run-1", "a"), Vault(tmp_path / "run-1", "a")
    with (
        vault.alone(),
        pytest.raises(ProtocolError, match="another message of this run is being answered"),
        other.alone(),
    ):
        pass
    with other.alone():
        assert (tmp_path / "run-1").stat().st_mode & 0o777 == 0o700


def test_a_draw_is_the_same_in_a_run_and_in_a_simulation_by_its_seed(tmp_path: Path) -> None:
    first, other = Vault(tmp_path / "run-1", "a"), Vault(tmp_path / "run-2", "a")
    assert first.draw() == Vault(tmp_path / "run-1", "a").draw()
    assert first.draw() != other.draw()
    assert stat.S_IMODE((tmp_path / "run-1" / "draw").stat().st_mode) == 0o600
    seeded = Vault(tmp_path / "run-3", "a", 7).draw()
    assert seeded == Vault(tmp_path / "run-4", "a", 7).draw()
    assert len({seeded, Vault(tmp_path, "b", 7).draw(), Vault(tmp_path, "a", 8).draw(), first.draw()}) == 4
    assert len(seeded) == len(first.draw()) == 16
