"""The order in which parts stand around a method, and what they hand it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod, Handler
from fedtag.client.methods.side import ClientSide
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import opened_site
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.spec import METHODS, MethodSpec
from fedtag.common.models.parameters import parameters_of
from fedtag.common.parts.spec import PARTS, PartSpec
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.wire.records import Content
from tests.exchanges import context_of


class Looking(ClientMethod[None]):
    """Says what it sees."""

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), "look": lambda data, context: Content({"x": data.graph.x})}

    def check(self, data: SiteData, config: RunConfig) -> None:
        if len(data.site.name) > 8:
            raise ConfigError(f"{data.site.name} has too long a name")


class Scaled:
    """A part that hands on larger features."""

    def __init__(self, method: ClientSide, add: float, times: float) -> None:
        self.method, self.add, self.times = method, add, times

    def changed(self, data: SiteData, context: RunContext[Any]) -> SiteData:
        x = self.times * data.graph.x + self.add
        return context.cached(data, f"{self.add} {self.times}", lambda: data.with_features(x))

    def respond(self, data: SiteData, context: RunContext[Any]) -> Content:
        return self.method.respond(self.changed(data, context), context)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: RunContext[Any], evidence: bool = False
    ) -> Prediction:
        return self.method.predict(released, self.changed(data, context), context, evidence)

    def check(self, data: SiteData, config: RunConfig) -> None:
        self.method.check(data, config)


LOOKING = Looking()


def doubled(method: ClientSide, settings: RunSettings) -> ClientSide:
    return Scaled(method, 0.0, 2.0)


def raised(method: ClientSide, settings: RunSettings) -> ClientSide:
    return Scaled(method, 1.0, 1.0)


@pytest.fixture
def open_site(
    tmp_path: Path, write_feature_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SiteRun]:
    folder = write_feature_folder(tmp_path / "site", 15)
    spec = MethodSpec(
        name="looking",
        title="Says what it sees",
        interface=INTERFACE,
        records=averaged_records("an update"),
        client=f"{__name__}:LOOKING",
        server="fedtag.server.methods.fedavg:METHOD",
    )
    monkeypatch.setitem(METHODS._added, spec.name, spec)
    for name in ("doubled", "raised"):
        part = PartSpec(
            name=name,
            title="Changes features",
            interface=INTERFACE,
            client=f"{__name__}:{name}",
            server="fedtag.server.parts.none:around",
        )
        monkeypatch.setitem(PARTS._added, name, part)

    def build(parts: str, name: str = "site") -> SiteRun:
        config = RunConfig.from_flat({"method": "looking", "parts": parts, "model.hidden": 4})
        return SiteRun(Site(name, folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ("", lambda x: x),
        ("doubled", lambda x: 2 * x),
        # The first part is the innermost, so that the last one changes first.
        ("doubled,raised", lambda x: 2 * (x + 1)),
        ("raised,doubled", lambda x: 2 * x + 1),
    ],
)
def test_parts_stand_around_the_method_in_their_order(
    open_site: Callable[..., SiteRun], parts: str, seen: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    site = open_site(parts)
    method, x = method_of(site.config), site.data.graph.x
    for _ in range(2):
        found = method.respond(site.data, context_of(site, phase="look")).tensors["x"]
        torch.testing.assert_close(found, seen(x))
    assert torch.equal(site.data.graph.x, x)
    # A prediction sees the same.
    model = LOOKING.model(site.data, context_of(site))
    released = ReleasedModel(parameters_of(model), 1, "graph")
    opened = opened_site(site.site, site.config)
    said = method.predict(released, opened.data, opened.context).logits
    torch.testing.assert_close(said, model(seen(x), site.data.adjacency))


def test_what_a_method_refuses_its_parts_refuse(open_site: Callable[..., SiteRun]) -> None:
    site = open_site("doubled", name="institution")
    with pytest.raises(ConfigError, match="institution has too long a name"):
        method_of(site.config).check(site.data, site.config)
