"""The settings of a run as methods, parts and models read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from fedtag.common.errors import ConfigError
from fedtag.common.settings.defaults import METHOD
from fedtag.common.settings.lists import listed
from fedtag.common.settings.privacy import PrivacyConfig
from fedtag.common.settings.sections import (
    AggregationConfig,
    CondenserConfig,
    Count,
    DataConfig,
    EvaluationConfig,
    ExchangeConfig,
    ModelConfig,
    ParentConfig,
    Section,
    SummariesConfig,
    TextConfig,
    TrackingConfig,
)
from fedtag.common.settings.train import TrainConfig

O = TypeVar("O", bound=Section)  # noqa: E741


class RunSettings(Section):
    """The shared settings of a run, and the tables of what it is made of: its method, parts, condenser, backbone."""

    method: str = Field(METHOD, description="what is trained, and how; `fedtag methods` lists all")
    preset: str = Field(
        "", description="name under which method, parts and settings were chosen; set by method"
    )
    parts: str = Field("", description="what stands around the method: names, with commas between them")
    rounds: Count = Field(100, description="rounds of training")
    clients: Count = Field(5, description="simulated clients, or clients to wait for")
    ratio: Annotated[float, Field(gt=0, le=1)] = Field(0.08, description="condensed nodes / nodes")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, description="of every random draw")
    out: str = Field(
        "",
        description="run directory; empty: a new one under runs/, on a server of `flwr run` under FEDTAG_HOME/runs/",
    )
    resume: bool = Field(False, description="go on from the checkpoint in the run directory")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:0, ...; a site's own setting wins")
    engine: Literal["separate", "stacked"] = Field(
        "separate",
        description="how a simulation trains its clients; separate: each by itself, as institutions do; stacked: all "
        "at once, for sweeps over methods and settings that can",
    )
    parent: ParentConfig = ParentConfig()
    data: DataConfig = DataConfig()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    aggregation: AggregationConfig = AggregationConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    exchange: ExchangeConfig = ExchangeConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tracking: TrackingConfig = TrackingConfig()
    condenser: CondenserConfig = CondenserConfig()
    summaries: SummariesConfig = SummariesConfig()
    tables: Mapping[str, Section] = Field({}, exclude=True, repr=False)

    def own(self, kind: type[O]) -> O:
        """The table of a method, a part, a condenser or a backbone of this run.

        Args:
            kind: the class of the settings, as its specification names it.

        Raises:
            ConfigError: nothing in the run has such a table.
        """
        for table in self.tables.values():
            if type(table) is kind:
                return table
        raise ConfigError(f"this run (method {self.method}) has no settings of {kind.__name__}")

    @property
    def own_rounds(self) -> int:
        """Rounds that the run does itself: all but those of the run that it extends."""
        return self.rounds - self.parent.rounds

    def extends(self, done: int) -> bool:
        """Whether a run that has done so many rounds extends another one and has done none of its own."""
        return bool(self.parent.run) and done == self.parent.rounds

    @property
    def part_names(self) -> tuple[str, ...]:
        """Of the parts that are on, in their order."""
        return listed(self.parts, "parts")
