"""Cut, join, move, compare: exact facts about RoPE caches, on a small random model."""

import pytest
import torch

from labbook import kvcache, models

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


@pytest.fixture(scope="module")
def model():
    return models.random_causal_lm(SHAPE, dtype=torch.float32, seed=0)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, 97, (1, 40), generator=torch.Generator().manual_seed(0))


def test_prefill_in_two_parts_equals_one(model, ids):
    logits, block = kvcache.prefill(model, ids)
    _, first = kvcache.prefill(model, ids[:, :25])
    again, second = kvcache.prefill(model, ids[:, 25:], first)
    torch.testing.assert_close(again, logits, atol=1e-5, rtol=0)
    assert first[0][0].shape[-2] == 25, "the past must not grow"
    for (a, b), (c, d) in zip(block, second):
        torch.testing.assert_close(a, c, atol=1e-5, rtol=0)
        torch.testing.assert_close(b, d, atol=1e-5, rtol=0)


def test_cut_and_join_are_inverse(model, ids):
    _, block = kvcache.prefill(model, ids)
    parts = kvcache.join(kvcache.cut(block, 0, 13), kvcache.cut(block, 13, 40))
    for (a, b), (c, d) in zip(block, parts):
        assert torch.equal(a, c) and torch.equal(b, d)


def test_cut_is_a_copy(model, ids):
    _, block = kvcache.prefill(model, ids)
    before = block[0][0].clone()
    kvcache.cut(block, 0, 5)[0][0].zero_()
    assert torch.equal(block[0][0], before)


def test_rotation_is_a_group(model):
    keys = torch.randn(1, 2, 7, 8, generator=torch.Generator().manual_seed(1))
    frequencies = kvcache.rotary_frequencies(model)
    there = kvcache.rotate(keys, 1300, frequencies)
    torch.testing.assert_close(kvcache.rotate(there, -1300, frequencies), keys, atol=1e-5, rtol=0)
    both = kvcache.rotate(kvcache.rotate(keys, 13, frequencies), -40, frequencies)
    torch.testing.assert_close(both, kvcache.rotate(keys, -27, frequencies), atol=1e-5, rtol=0)
    torch.testing.assert_close(there.norm(dim=-1), keys.norm(dim=-1), atol=1e-5, rtol=0)
    assert torch.equal(kvcache.rotate(keys, 0, frequencies), keys)
    assert not torch.allclose(there, keys, atol=1e-2)


def test_moved_keys_equal_keys_computed_there_in_layer_0(model, ids):
    _, near = kvcache.prefill(model, ids)
    prefix = torch.zeros((1, 900), dtype=torch.long)
    _, far = kvcache.prefill(model, torch.cat([prefix, ids], 1))
    moved = kvcache.move(near, 900, kvcache.rotary_frequencies(model))
    torch.testing.assert_close(moved[0][0], far[0][0][:, :, 900:], atol=2e-5, rtol=0)
    torch.testing.assert_close(moved[0][1], far[0][1][:, :, 900:])


def test_compare_is_zero_on_itself_and_sees_a_change(model, ids):
    _, block = kvcache.prefill(model, ids)
    same = kvcache.compare(block, block)
    assert same["values"].shape == (3, 40) and same["keys"].abs().max() < 1e-5
    changed = kvcache.cut(block, 0, 40)
    changed[1][1][:, :, 7] *= -1
    deviation = kvcache.compare(block, changed)["values"]
    assert abs(deviation[1, 7] - 2) < 1e-5 and deviation[0].max() < 1e-5


def test_generate_goes_on_from_a_joined_cache(model, ids):
    _, block = kvcache.prefill(model, ids[:, :-1])
    cache = kvcache.to_cache(kvcache.cut(block, 0, 39))
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    plain = model.generate(ids, **options)
    spliced = model.generate(ids, **{kvcache.CACHE_ARGUMENT: cache}, **options)
    assert torch.equal(plain, spliced)


def test_bad_arguments_are_named(model, ids):
    _, block = kvcache.prefill(model, ids)
    with pytest.raises(ValueError, match="begin, end = 5, 99"):
        kvcache.cut(block, 5, 99)
    with pytest.raises(ValueError, match="layers; they must agree"):
        kvcache.join(block, block[:1])
    with pytest.raises(ValueError, match="no rotary embedding"):
        kvcache.rotary_frequencies(torch.nn.Linear(1, 1))


def test_bytes_per_token(model, ids):
    _, block = kvcache.prefill(model, ids)
    assert kvcache.bytes_per_token(block) == 3 * 2 * 2 * 8 * 4  # layers, K and V, heads, size, fp32
