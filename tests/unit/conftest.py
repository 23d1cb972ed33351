"""What tests of several rooms are given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.measured import summary_of_two


@pytest.fixture
def measured_summary() -> dict[str, Any]:
    """A measurement of faithfulness, with two targets."""
    return summary_of_two()
