"""Writes a tiny model without training, and its tokenizer. Replace the folder by your own."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

if __name__ == "__main__":
    torch.manual_seed(1)
    folder = Path(__file__).with_name("@NAME@")
    words = {"[PAD]": 0, "[UNK]": 1, "the": 2, "cat": 3, "dog": 4, "sleeps": 5}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": 32}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    size = {"vocab_size": len(words), "max_position_embeddings": 32, "num_hidden_layers": 1}
    config = BertConfig(hidden_size=8, intermediate_size=16, num_attention_heads=2, **size)
    BertModel(config).save_pretrained(folder)
