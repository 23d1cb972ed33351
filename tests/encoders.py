"""Tiny sentence encoders with random weights, as folders that sentence-transformers reads."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WIDTH = 16
WORDS = ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "text", "of", "node", *map(str, range(10)))


def save_tiny_encoder(folder: Path, seed: int = 0) -> Path:
    """An encoder of 16 numbers with mean pooling, whose weights follow from a seed."""
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=128,
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=WIDTH,
        max_position_embeddings=128,
        pad_token_id=1,
    )
    BertModel(config).save_pretrained(folder)
    parts = {
        "": "sentence_transformers.models.Transformer",
        "1_Pooling": "sentence_transformers.models.Pooling",
    }
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": kind}
        for place, (path, kind) in enumerate(parts.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    pooling = folder / "1_Pooling"
    pooling.mkdir()
    (pooling / "config.json").write_text(
        json.dumps({"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True})
    )
    return folder
