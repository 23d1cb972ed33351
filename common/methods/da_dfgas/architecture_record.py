"""A client's architecture as it travels."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from fedtag.common.errors import WireError

MOST_PARAMETERS = 10**12


def _readable(cells: list[Any]) -> list[Any]:
    # It brings PyTorch, which a specification must do without.
    from fedtag.common.models.supernet.architecture import Architecture

    try:
        Architecture.from_json({"cells": cells})
    except WireError as error:
        raise ValueError(str(error)) from None
    return cells


class ToldArchitecture(TypedDict):
    """Cells as of `Architecture.as_json`, and the number of trained parameters."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    cells: Annotated[list[Any], AfterValidator(_readable)]
    parameters: Annotated[int, Field(ge=0, le=MOST_PARAMETERS)]
