#!/usr/bin/env python3
"""Makes small random models of the encoder architectures, with what `transformers` answers: data of tests/hf.

usage: PYTHON tools/make_tiny_encoders.py

PYTHON needs torch, transformers, safetensors and numpy; the project does not, so the result is committed:
tests/hf/data/tiny_<name>/ with config.json, model.safetensors, input_ids.npy, attention_mask.npy,
token_type_ids.npy and last_hidden_state.npy. Made with torch 2.15.0, transformers 5.23.0.
"""
import os
import shutil

import numpy as np
import torch
from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel)

OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "hf", "data")
SIZES = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
             max_position_embeddings=20)

MODELS = {
    "bert": (BertModel, BertConfig(hidden_act="gelu_new", layer_norm_eps=1e-5, type_vocab_size=3, **SIZES), torch.float32),
    "bert_f16": (BertModel, BertConfig(hidden_act="relu", **SIZES), torch.float16),
    "distilbert": (DistilBertModel, DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=24,
                                                     max_position_embeddings=20), torch.float32),
    "roberta": (RobertaModel, RobertaConfig(pad_token_id=1, type_vocab_size=1, **SIZES), torch.bfloat16),
}


def main():
    for seed, (name, (kind, config, dtype)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config._attn_implementation = "eager"
        model = kind(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_((torch.randn_like(p) * 0.3 + (1 if p.ndim == 1 else 0) * 0.2).to(dtype).float())
        folder = os.path.join(OUT, "tiny_" + name)
        shutil.rmtree(folder, ignore_errors=True)
        ids = torch.randint(2, 50, (3, 7))
        mask = torch.ones(3, 7, dtype=torch.int64)
        mask[1, 4:] = 0
        mask[2, 1:] = 0
        pad = config.pad_token_id or 0
        ids[mask == 0] = pad
        types = torch.zeros_like(ids)
        inputs = dict(input_ids=ids, attention_mask=mask)
        if name.startswith("bert"):
            types[:, 3:] = 1
            inputs["token_type_ids"] = types
        with torch.no_grad():
            answer = model(**inputs).last_hidden_state
        model.to(dtype).save_pretrained(folder)
        for part, value in (("input_ids", ids), ("attention_mask", mask), ("token_type_ids", types), ("last_hidden_state", answer)):
            np.save(os.path.join(folder, part + ".npy"), value.numpy())


if __name__ == "__main__":
    main()
