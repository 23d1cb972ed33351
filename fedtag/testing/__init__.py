"""The contract that methods, parts, condensers and backbones keep, as functions that raise what they break.

from fedtag.testing import check_method

def test_contract():
    check_method("class-balance")        # or the specification itself
"""

from fedtag.testing.suite import check_backbone, check_condenser, check_method, check_part

__all__ = ["check_backbone", "check_condenser", "check_method", "check_part"]
