"""Read, write, move and compare the key/value cache of a transformers decoder.

Belongs here: what any method that touches a KV cache needs. Not here: a method's own rule
for what to keep or recompute.

A block of cache is a list with one ``(keys, values)`` pair per layer, each tensor
``[batch, kv_heads, tokens, head_dim]``. Keys are stored as the model stores them: after
RoPE, at their positions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Block = list[tuple[Tensor, Tensor]]

# transformers calls the cache argument and output field `past_key_values` up to 5.23 and
# `cache` from 5.24 on; the book pins 5.17. Every module and notebook asks here.
CACHE_ARGUMENT = "past_key_values"


def layers(cache) -> Block:
    """The (keys, values) pairs of a transformers cache, without copying."""
    pairs = [(layer.keys, layer.values) for layer in cache.layers]
    if any(type(layer).__name__ != "DynamicLayer" for layer in cache.layers):
        kinds = sorted({type(layer).__name__ for layer in cache.layers})
        raise ValueError(f"cache layers are {kinds}; only full-attention DynamicLayer can be cut")
    return pairs


def to_cache(block: Block):
    """A transformers cache that holds (and will grow from) these tensors."""
    from transformers import DynamicCache

    return DynamicCache(block)


def cut(block: Block, begin: int, end: int) -> Block:
    """Tokens ``begin .. end-1`` of every layer, as copies that nothing else can change."""
    length = block[0][0].shape[-2]
    if not 0 <= begin <= end <= length:
        raise ValueError(f"begin, end = {begin}, {end}; need 0 <= begin <= end <= {length}")
    return [(k[..., begin:end, :].clone(), v[..., begin:end, :].clone()) for k, v in block]


def join(*blocks: Block) -> Block:
    """Concatenate blocks along the tokens, layer by layer."""
    if len({len(b) for b in blocks}) != 1:
        raise ValueError(f"blocks have {[len(b) for b in blocks]} layers; they must agree")
    return [
        (torch.cat([k for k, _ in pairs], -2), torch.cat([v for _, v in pairs], -2))
        for pairs in zip(*blocks)
    ]


def rotary_frequencies(model: nn.Module) -> Tensor:
    """Angular frequencies ``[head_dim / 2]`` (rad per token) of the model's RoPE.

    Raises
    ------
    ValueError
        The model has none, or its frequencies change with the length (dynamic NTK).
    """
    rotary = getattr(getattr(model, "model", model), "rotary_emb", None)
    if rotary is None:
        raise ValueError(
            f"{type(model).__name__} has no rotary embedding; its keys cannot be moved"
        )
    kind = getattr(rotary, "rope_type", "default")
    if kind in ("dynamic", "longrope"):
        raise ValueError(f"rope_type = {kind!r} changes with the length; keys cannot be moved")
    return rotary.inv_freq


def rotate(keys: Tensor, shift: int, frequencies: Tensor) -> Tensor:
    """Move RoPE keys by `shift` positions: R(shift) R(p) k = R(p + shift) k.

    Parameters
    ----------
    keys : Tensor [..., tokens, head_dim]
        Keys at any positions; every token moves by the same `shift`.
    frequencies : Tensor [head_dim / 2]
        From `rotary_frequencies`, rad per token. Pairs are (i, i + head_dim / 2).

    Returns
    -------
    Tensor
        Same shape and dtype. The rotation is computed in float32 and rounded once.
    """
    # Angles of long shifts lose digits in float32: compute them in float64 on the host side
    # of the cast, then rotate in float32.
    angle = float(shift) * frequencies.double()
    cos, sin = angle.cos().float(), angle.sin().float()
    first, second = keys.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(keys.dtype)


def move(block: Block, shift: int, frequencies: Tensor) -> Block:
    """A block at other positions: keys rotated by `shift`, values untouched."""
    return [(rotate(k, shift, frequencies), v) for k, v in block]


def cosine_deviation(a: Tensor, b: Tensor) -> Tensor:
    """1 - cos between the states of each token, heads flattened: ``[..., tokens]`` in [0, 2].

    `a` and `b` are ``[..., kv_heads, tokens, head_dim]``.
    """
    a = a.transpose(-3, -2).flatten(-2).float()
    b = b.transpose(-3, -2).flatten(-2).float()
    return 1 - torch.nn.functional.cosine_similarity(a, b, dim=-1)


def compare(a: Block, b: Block) -> dict[str, Tensor]:
    """Cosine deviation of keys and of values, each ``[layers, tokens]`` (batch 1)."""
    if len(a) != len(b):
        raise ValueError(f"blocks have {len(a)} and {len(b)} layers; they must agree")
    return {
        "keys": torch.stack([cosine_deviation(x[0], y[0])[0] for x, y in zip(a, b)]),
        "values": torch.stack([cosine_deviation(x[1], y[1])[0] for x, y in zip(a, b)]),
    }


@torch.inference_mode()
def prefill(model: nn.Module, ids: Tensor, past: Block | None = None, logits_to_keep: int = 1):
    """Run `ids` ``[1, tokens]`` after the cached tokens of `past`.

    Returns
    -------
    logits : Tensor [1, logits_to_keep, vocabulary]
    block : Block
        Cache of past and new tokens together. `past` is not changed.
    """
    seen = 0 if past is None else past[0][0].shape[-2]
    positions = torch.arange(seen, seen + ids.shape[1], device=ids.device)[None]
    cache = None if past is None else to_cache(past)
    out = model(
        ids,
        position_ids=positions,
        use_cache=True,
        logits_to_keep=logits_to_keep,
        **{CACHE_ARGUMENT: cache},
    )
    return out.logits, layers(out[CACHE_ARGUMENT])


def bytes_per_token(block: Block) -> int:
    """Bytes that one token of this block takes in all layers."""
    return sum(t.element_size() * t.shape[-1] * t.shape[-3] for pair in block for t in pair)


def repeat_heads(states: Tensor, groups: int) -> Tensor:
    """``[batch, kv_heads, ...]`` -> ``[batch, kv_heads * groups, ...]``, as grouped attention."""
    return states.repeat_interleave(groups, dim=1) if groups > 1 else states
