"""Read a GGUF file: metadata, float32 tensors, tokenizer. A file format, nothing else.

GGUF is a header, key/value metadata, a tensor table and data aligned to 32 bytes
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Only what the pinned weights
need is read: F32, Q8_0 and Q4_1 tensors of Llama-shaped models, byte-level BPE vocabularies.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
import torch

# GGUF value types -> struct formats; 8 is a string, 9 an array
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_Q4_1 = np.dtype(
    [("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]
)  # 32 weights: low, then high nibbles
_Q8_0 = np.dtype([("d", "<f2"), ("q", "i1", 32)])  # 32 weights


class _Reader:
    def __init__(self, data: mmap.mmap):
        self.data, self.at = data, 0

    def scalar(self, code: str):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8")

    def value(self, kind: int):
        if kind == 8:
            return self.string()
        if kind == 9:
            inner, count = self.scalar("I"), self.scalar("Q")
            if inner in _SCALARS:
                code = "<" + _SCALARS[inner]
                width = struct.calcsize(code)
                self.at += width * count
                raw = self.data[self.at - width * count : self.at]
                return [v for (v,) in struct.iter_unpack(code, raw)]
            return [self.value(inner) for _ in range(count)]
        return self.scalar(_SCALARS[kind])


def read(file: Path) -> tuple[dict[str, object], dict[str, torch.Tensor]]:
    """Metadata and float32 tensors of a GGUF file, tensors by their GGUF names.

    Shapes are row-major: a linear layer is ``[out, in]``.

    Raises
    ------
    ValueError
        Not a GGUF file, or a tensor type other than F32, Q8_0, Q4_1.
    """
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(data)
        if data[:4] != b"GGUF":
            raise ValueError(f"{file} is not a GGUF file")
        reader.at = 4
        reader.scalar("I")  # version
        tensors, values = reader.scalar("Q"), reader.scalar("Q")
        metadata = {}
        for _ in range(values):
            key = reader.string()
            metadata[key] = reader.value(reader.scalar("I"))
        table = []
        for _ in range(tensors):
            name, rank = reader.string(), reader.scalar("I")
            shape = [reader.scalar("Q") for _ in range(rank)][::-1]
            table.append((name, shape, reader.scalar("I"), reader.scalar("Q")))
        align = int(metadata.get("general.alignment", 32))
        start = -(-reader.at // align) * align
        return metadata, {n: _tensor(data, s, t, start + offset) for n, s, t, offset in table}


def _tensor(data: mmap.mmap, shape: list[int], kind: int, offset: int) -> torch.Tensor:
    count = int(np.prod(shape))
    if kind == 0:
        flat = np.frombuffer(data, "<f4", count, offset).copy()
    elif kind == 3:
        block = np.frombuffer(data, _Q4_1, count // 32, offset)
        nibbles = np.concatenate([block["q"] & 15, block["q"] >> 4], axis=1)
        flat = block["d"].astype("f4")[:, None] * nibbles + block["m"].astype("f4")[:, None]
    elif kind == 8:
        block = np.frombuffer(data, _Q8_0, count // 32, offset)
        flat = block["d"].astype("f4")[:, None] * block["q"].astype("f4")
    else:
        raise ValueError(
            f"GGUF tensor type {kind} is not supported; F32 (0), Q4_1 (3), Q8_0 (8) are"
        )
    return torch.from_numpy(flat.astype("f4", copy=False).reshape(shape))


def _unpermute(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the pairing of rotary rows that GGUF uses (2i, 2i+1) -> (i, i + d/2)."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def llama(metadata: dict, tensors: dict[str, torch.Tensor]) -> tuple[dict, dict[str, torch.Tensor]]:
    """Configuration and state dict of a Llama-shaped model, by transformers' names."""
    get = {k.removeprefix("llama."): v for k, v in metadata.items()}
    heads, kv_heads = get["attention.head_count"], get["attention.head_count_kv"]
    config = {
        "hidden_size": get["embedding_length"],
        "intermediate_size": get["feed_forward_length"],
        "num_hidden_layers": get["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": get["context_length"],
        "rms_norm_eps": get["attention.layer_norm_rms_epsilon"],
        "rope_theta": get["rope.freq_base"],
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    names = {
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }  # fmt: skip
    state = {}
    for name, tensor in tensors.items():
        part = name.split(".")
        if part[0] == "blk":
            if part[2] == "attn_q":
                tensor = _unpermute(tensor, heads)
            elif part[2] == "attn_k":
                tensor = _unpermute(tensor, kv_heads)
            state[f"model.layers.{part[1]}.{names[part[2]]}.weight"] = tensor
        elif part[0] == "token_embd":
            state["model.embed_tokens.weight"] = tensor
        elif part[0] == "output_norm":
            state["model.norm.weight"] = tensor
        elif part[0] == "output":
            state["lm_head.weight"] = tensor
    if config["tie_word_embeddings"]:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return config, state


def tokenizer(metadata: dict):
    """The byte-level BPE tokenizer of the file, as a transformers fast tokenizer."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]]
    fast = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    # SmolLM2 splits numbers into digits before byte-level BPE; GGUF does not record that.
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    fast.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, metadata["tokenizer.ggml.token_type"]) if kind == 3]
    fast.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])

    def name(key):
        return tokens[metadata[f"tokenizer.ggml.{key}_token_id"]]

    result = PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token=name("bos"), eos_token=name("eos"),
        pad_token=name("padding"), unk_token=name("unknown"), clean_up_tokenization_spaces=False,
    )  # fmt: skip
    result.chat_template = metadata["tokenizer.chat_template"]
    return result
