"""A LoRA adapter with random numbers, in the form that PEFT writes and vLLM reads."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

RANK = 4
LARGE = 0.2
"""So that the adapter changes what is said: one that is small would leave greedy answers as they are."""


def write_adapter(folder: Path, model: Path, seed: int) -> Path:
    """Writes one for the queries and values of every layer of `model`, a Hugging Face folder; returns `folder`."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    head = int(config.get("head_dim") or hidden // heads)
    widths = {"q_proj": heads * head, "v_proj": int(config["num_key_value_heads"]) * head}
    chance = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(int(config["num_hidden_layers"])):
        for name, width in widths.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{place}.lora_A.weight"] = LARGE * torch.randn(RANK, hidden, generator=chance)
            tensors[f"{place}.lora_B.weight"] = LARGE * torch.randn(width, RANK, generator=chance)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    told = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "target_modules": list(widths),
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder
