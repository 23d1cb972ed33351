"""The forward pass of a BERT whose tokens are averaged, without padding where the device can.

Devlin et al., NAACL 2019; Reimers and Gurevych, "Sentence-BERT", EMNLP 2019.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

WEIGHTS = "model.safetensors"
AMPERE = (8, 0)
"""The compute capability from which a GPU can attend within texts that lie one after the other."""
PARTS = ("Transformer", "Pooling", "Normalize")
PLAIN = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}


@dataclass(frozen=True)
class Shape:
    """Of a BERT: width of a hidden state, attention heads, layers, ε of its norms, most tokens of a text."""

    width: int
    heads: int
    layers: int
    epsilon: float
    most: int


def shape_of(folder: Path) -> Shape | None:
    """The shape of the model in a sentence-transformers folder; None if it is not a BERT with mean pooling alone."""
    try:
        config, limits = (_read(folder / name) for name in ("config.json", "sentence_bert_config.json"))
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        pooling = _read(folder / modules[1]["path"] / "config.json")
    except (OSError, ValueError, LookupError):
        return None
    kinds = tuple(str(module.get("type", "")).rpartition(".")[2] for module in modules)
    means = [name for name, on in pooling.items() if name.startswith("pooling_mode") and on]
    lower = limits.get("do_lower_case", False)
    plain = all(config.get(name, value) == value for name, value in PLAIN.items()) and "model_type" in config
    if kinds not in (PARTS, PARTS[:2]) or means != ["pooling_mode_mean_tokens"] or not plain or lower:
        return None
    if not (folder / WEIGHTS).is_file() or modules[0].get("path"):
        return None
    most = min(limits.get("max_seq_length") or 512, config["max_position_embeddings"])
    return Shape(
        config["hidden_size"],
        config["num_attention_heads"],
        config["num_hidden_layers"],
        config["layer_norm_eps"],
        most,
    )


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


class Bert:
    """The weights of a BERT on a device, and its pass over texts of different lengths.

    Args:
        folder: where they lie.
        shape: of `shape_of`.
        device: that computes.
        dtype: of weights and products.

    Raises:
        ValueError, OSError: the file is not that of such a model.
    """

    def __init__(self, folder: Path, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device = shape, device
        raw = load_file(folder / WEIGHTS)
        named = {name.removeprefix("bert."): value.to(device, dtype) for name, value in raw.items()}
        try:
            self._first, self._layers = _embedding(named), [_layer(named, i) for i in range(shape.layers)]
        except KeyError as error:
            raise ValueError(f"{WEIGHTS} has no {error}") from error
        # Its kernel is for half precision.
        halves = device.type == "cuda" and dtype != torch.float32
        self.packs = halves and torch.cuda.get_device_capability(device) >= AMPERE

    @torch.inference_mode()
    def vectors(
        self, ids: Int[Tensor, " tokens"], lengths: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts width"]:
        """The unit vector of each text, float32 on the device.

        Args:
            ids: the tokens of all texts, one after the other, special ones included, on the CPU.
            lengths: of each text, at least 1 and at most `shape.most`.
        """
        return self._packed(ids, lengths) if self.packs else self._padded(ids, lengths)

    def _packed(self, flat: Tensor, lengths: Tensor) -> Float[Tensor, "texts width"]:
        """All texts one after the other; each attends within itself."""
        from torch.nn.attention.varlen import varlen_attn

        shape, longest = self.shape, int(lengths.max())
        ends = lengths.cumsum(0)
        text = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        place = (torch.arange(len(flat)) - (ends - lengths)[text]).to(self.device, non_blocking=True)
        starts = torch.cat([ends.new_zeros(1), ends]).to(torch.int32).to(self.device, non_blocking=True)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (one.reshape(len(one), shape.heads, -1) for one in (q, k, v))
            found = varlen_attn(q, k, v, starts, starts, longest, longest)
            assert isinstance(found, Tensor)
            return found.reshape(len(q), shape.width)

        hidden = self._through(flat.to(self.device, non_blocking=True), place, attend)
        total = torch.segment_reduce(
            hidden.float(), "sum", offsets=starts.long(), initial=0.0, unsafe=True, axis=0
        )
        # A mean differs from a sum by its length alone.
        return functional.normalize(total, dim=1)

    def _padded(self, flat: Tensor, lengths: Tensor) -> Float[Tensor, "texts width"]:
        """A row for each text, as long as the longest one."""
        shape, width = self.shape, int(lengths.max())
        inside = torch.arange(width) < lengths.unsqueeze(1)
        ids = torch.zeros(inside.shape, dtype=torch.long).masked_scatter(inside, flat).to(self.device)
        inside = inside.to(self.device)
        mask = None if bool((lengths == width).all()) else inside[:, None, None, :]

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (one.unflatten(2, (shape.heads, -1)).transpose(1, 2) for one in (q, k, v))
            found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return found.transpose(1, 2).flatten(2)

        hidden = self._through(ids, torch.arange(width, device=self.device), attend)
        return functional.normalize((hidden.float() * inside.unsqueeze(2)).sum(1), dim=1)

    def _through(self, ids: Int[Tensor, ...], place: Int[Tensor, ...], attend: Any) -> Tensor:
        words, places, norm, bias = self._first
        width, epsilon = (self.shape.width,), self.shape.epsilon
        x = functional.layer_norm(words[ids] + places[place], width, norm, bias, epsilon)
        for one in self._layers:
            q, k, v = functional.linear(x, one["qkv.weight"], one["qkv.bias"]).chunk(3, -1)
            x = self._joined(x, attend(q, k, v), one, "out")
            inner = functional.gelu(functional.linear(x, one["up.weight"], one["up.bias"]))
            x = self._joined(x, inner, one, "down")
        return x

    def _joined(self, x: Tensor, beside: Tensor, one: Mapping[str, Tensor], name: str) -> Tensor:
        added = x + functional.linear(beside, one[f"{name}.weight"], one[f"{name}.bias"])
        norm, bias = one[f"{name}.norm.weight"], one[f"{name}.norm.bias"]
        return functional.layer_norm(added, (self.shape.width,), norm, bias, self.shape.epsilon)


def _embedding(named: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    words, places, kinds, norm, bias = (
        named[f"embeddings.{name}"]
        for name in (
            "word_embeddings.weight",
            "position_embeddings.weight",
            "token_type_embeddings.weight",
            "LayerNorm.weight",
            "LayerNorm.bias",
        )
    )
    # All tokens of a single text are of the first kind.
    return words, places + kinds[0], norm, bias


def _layer(named: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        at = f"encoder.layer.{number}"
        parts = [named[f"{at}.attention.self.{one}.{kind}"] for one in ("query", "key", "value")]
        found[f"qkv.{kind}"] = torch.cat(parts)
        found[f"out.{kind}"] = named[f"{at}.attention.output.dense.{kind}"]
        found[f"out.norm.{kind}"] = named[f"{at}.attention.output.LayerNorm.{kind}"]
        found[f"up.{kind}"] = named[f"{at}.intermediate.dense.{kind}"]
        found[f"down.{kind}"] = named[f"{at}.output.dense.{kind}"]
        found[f"down.norm.{kind}"] = named[f"{at}.output.LayerNorm.{kind}"]
    return found
