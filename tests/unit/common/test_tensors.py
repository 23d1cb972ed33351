from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from fedtag.common.tensors import apart, on_host, owned, read_tensors, tensor_bytes, tensors_of, together

ALIGNMENT = 64
"""Bytes at whose multiples PyTorch's own memory begins."""


def several(names: int) -> dict[str, torch.Tensor]:
    """Tensors that begin at many places of a file."""
    generator = torch.Generator().manual_seed(0)
    return {"x" * size: torch.randn(size, 3, generator=generator) for size in range(1, names + 1)}


def aligned(tensors: dict[str, torch.Tensor]) -> bool:
    return all(value.data_ptr() % ALIGNMENT == 0 for value in tensors.values())


def test_what_was_read_is_what_was_written(tmp_path: Path) -> None:
    tensors = {**several(5), "whole": torch.tensor(3), "none": torch.zeros(0, 4), "yes": torch.tensor([True])}
    file = tmp_path / "some.safetensors"
    file.write_bytes(tensor_bytes(tensors, {"note": "äöü"}))
    for read in (tensors_of(tensor_bytes(tensors)), read_tensors(file)[0]):
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], value) for name, value in tensors.items())
        assert [value.dtype for _, value in sorted(read.items())] == [
            value.dtype for _, value in sorted(tensors.items())
        ]
    assert read_tensors(file)[1] == {"note": "äöü"}


def test_what_was_read_lies_in_memory_as_if_it_had_never_left_it(tmp_path: Path) -> None:
    """A matrix product's last digits depend on it, and a resumed run equals an uninterrupted one to the bit."""
    content = tensor_bytes(several(20))
    file = tmp_path / "some.safetensors"
    file.write_bytes(content)
    assert aligned(owned(several(20)))
    assert aligned(tensors_of(content))
    assert aligned(read_tensors(file)[0])
    assert not aligned(safetensors.torch.load_file(file))


def test_views_and_tensors_that_share_memory_are_written_as_they_are_read() -> None:
    base = torch.arange(12.0, requires_grad=True).view(3, 4)
    tensors = {"turned": base.T, "one": base[0], "whole": base}
    read = tensors_of(tensor_bytes(tensors))
    assert all(torch.equal(read[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"x" * 100, tensor_bytes(several(3))[:-1]])
def test_damage_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "some.safetensors"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"\S"):
        tensors_of(content)
    with pytest.raises(ValueError, match=r"\S"):
        read_tensors(file)


def test_a_file_that_is_not_there_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_tensors(tmp_path / "none.safetensors")


def test_bytes_are_those_of_safetensors_own_way() -> None:
    tensors = {
        "matrix": torch.randn(3, 4),
        "none": torch.zeros(0, 4),
        "whole": torch.tensor(3),
        "yes": torch.tensor([True, False]),
        **{
            str(dtype): torch.arange(5).to(dtype)
            for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.uint8)
        },
        "turned": torch.randn(4, 3).T,
    }
    for texts in (None, {"note": "äöü"}):
        assert tensor_bytes(tensors, texts) == safetensors.torch.save(owned(tensors), texts)
    assert tensor_bytes({}) == safetensors.torch.save({})


def test_what_comes_over_in_one_piece_is_what_was_there() -> None:
    tensors = {
        **several(3),
        "whole": torch.tensor(3),
        "none": torch.zeros(0, 4),
        "yes": torch.tensor([True, False, True]),
        "double": torch.tensor([0.1], dtype=torch.float64),
        "turned": torch.arange(6.0).view(2, 3).T,
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    }
    found = apart(together(tensors), tensors)
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype is value.dtype
        assert torch.equal(found[name], value)
    assert on_host(tensors) == tensors
