"""What the contract is asked of."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from fedtag.testing.subject import Subject
from tests.contract.subjects import Case


@pytest.fixture(scope="module")
def subject_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Subject]:
    """One for all checks of a case, which share its runs; its checks follow one another."""

    @lru_cache(maxsize=1)
    def made(case: Case) -> Subject:
        return Subject(case.what, case.settings, tmp_path_factory.mktemp("subject"))

    return made
