"""Writes a tiny model without training. Replace the folder by your own model."""

from pathlib import Path

import torch
from transformers import ViTConfig, ViTForImageClassification

if __name__ == "__main__":
    torch.manual_seed(1)
    size = {"hidden_size": 8, "intermediate_size": 16, "patch_size": 56}
    config = ViTConfig(num_hidden_layers=1, num_attention_heads=2, num_labels=3, **size)
    model = ViTForImageClassification(config)
    model.save_pretrained(Path(__file__).with_name("@NAME@"))
