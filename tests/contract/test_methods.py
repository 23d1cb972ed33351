"""Every built-in method and preset keeps the contract, as `fedtag.testing` asks it of anybody's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedtag.common.methods.spec import METHODS, PRESETS
from fedtag.testing.subject import Subject
from fedtag.testing.suite import Check
from tests.contract.subjects import Case, cases


@pytest.mark.parametrize(("case", "check"), cases(METHODS, PRESETS))
def test_the_contract_is_kept(subject_of: Callable[[Case], Subject], case: Case, check: Check) -> None:
    check(subject_of(case))
