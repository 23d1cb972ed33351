"""PyTorch Geometric is loaded without what its data sets load, and is whole for whoever uses them."""

from __future__ import annotations

import subprocess
import sys

LEAN = """
import sys
import fedtag.common.models.backbones.gcn
assert not {"pandas", "transformers", "torch._dynamo", "torch_geometric.datasets"} & set(sys.modules)
"""
WHOLE = """
import torch_geometric
assert torch_geometric.datasets.Planetoid.__module__ == "torch_geometric.datasets.planetoid"
from torch_geometric.datasets import Planetoid
assert Planetoid is torch_geometric.datasets.Planetoid
"""


def test_layers_come_without_data_sets_which_come_when_they_are_used() -> None:
    subprocess.run([sys.executable, "-c", LEAN + WHOLE], check=True)


def test_who_has_the_package_keeps_it() -> None:
    before = "import sys\nimport torch_geometric\nhad = torch_geometric.datasets\n"
    after = "import fedtag.common.models.geometric\nassert sys.modules['torch_geometric.datasets'] is had\n"
    subprocess.run([sys.executable, "-c", before + after + WHOLE], check=True)


def test_what_was_compiled_is_of_its_kind() -> None:
    check = (
        "import fedtag.common.models.geometric\nimport torch\nfrom torch_geometric import is_torch_instance\n"
        "layer = torch.nn.Linear(2, 2)\nassert is_torch_instance(layer, torch.nn.Linear)\n"
        "compiled = torch.compile(layer)\nassert not isinstance(compiled, torch.nn.Linear)\n"
        "assert is_torch_instance(compiled, torch.nn.Linear)\nassert not is_torch_instance(compiled, torch.nn.ReLU)\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
