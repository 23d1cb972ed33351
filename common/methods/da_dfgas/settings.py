"""The table of settings of DA-DFGAS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import Fraction, Positive, Section


class DaDfgasConfig(Section):
    """DA-DFGAS: search of an architecture, its discretisation, retraining."""

    cells: Annotated[int, Field(ge=1, le=4)] = Field(
        2, description="cells one after the other; each looks one hop further"
    )
    search_share: Fraction = Field(
        0.5, description="share of the rounds in which the architecture is searched; retraining follows"
    )
    stable_entropy: Fraction = Field(
        0.0,
        description="the search ends as soon as the entropy of the global architecture, as a share of the largest, "
        "moves by less than this over five rounds; 0: never",
    )
    architecture_rate: Annotated[float, Field(gt=0, le=10**6)] = Field(
        0.03, description="step size of Adam on the architecture"
    )
    smoothing: Fraction = Field(
        0.5, description="share of the global architecture that stays at the start (gamma_0)"
    )
    smoothing_rounds: Positive = Field(
        60.0, description="rounds in which the rest that moves falls to 1/e (T of Eq. 12)"
    )
    path_gap: Fraction = Field(
        0.1, description="two edges into a node of layer 2 are kept if their probabilities are closer (delta)"
    )
    personal: bool = Field(
        True,
        description="each client retrains an architecture of its own, which it keeps to itself under secure "
        "aggregation; off: one for all",
    )
    own: Literal["better", "always"] = Field(
        "better",
        description="a client takes its own architecture where more of its validation nodes than chance would have it "
        "speak for it and against the global one; or always, as in the paper",
    )
    scoring: Literal["own", "shared", "auto"] = Field(
        "own",
        description="architecture in which the global weights are scored in personal retraining: the client's own, "
        "that of the global logits, or the better one on validation",
    )
    adaptive: bool = Field(
        True,
        description="a client whose accuracy is under train.accuracy-threshold, or without one 0.1 under the "
        "federation's median, takes train.extra-epochs more, by default twice the epochs",
    )
    keep_local: bool = Field(
        False, description="such a client also goes on from its own weights instead of the global ones"
    )
