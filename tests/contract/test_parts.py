"""Every built-in part keeps the contract, as `fedtag.testing` asks it of anybody's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedtag.common.parts.spec import PARTS
from fedtag.testing.subject import Subject
from fedtag.testing.suite import Check
from tests.contract.subjects import Case, cases


@pytest.mark.parametrize(("case", "check"), cases(PARTS))
def test_the_contract_is_kept(subject_of: Callable[[Case], Subject], case: Case, check: Check) -> None:
    check(subject_of(case))
