"""Statistics against values known in closed form."""

import numpy as np
import pytest
import torch

from labbook import metrics


def test_bootstrap_covers_the_mean_of_normal_data():
    rng = np.random.default_rng(0)
    hits = 0
    for k in range(200):
        low, high = metrics.bootstrap_interval(rng.normal(1.0, 2.0, 40), resamples=500, seed=k)
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 200 <= 0.98


def test_bootstrap_of_a_ratio_of_means():
    pairs = np.stack([np.full(10, 3.0), np.full(10, 6.0)], 1)
    ratio = metrics.bootstrap_interval(pairs, lambda x: x[..., 0].mean(1) / x[..., 1].mean(1))
    assert ratio == (0.5, 0.5)


def test_bootstrap_rejects_one_unit():
    with pytest.raises(ValueError, match="units >= 2"):
        metrics.bootstrap_interval([1.0])
    with pytest.raises(ValueError, match="level = 2"):
        metrics.bootstrap_interval([1.0, 2.0], level=2)


def test_kl_matches_torch_and_is_zero_on_itself():
    g = torch.Generator().manual_seed(0)
    p, q = torch.randn(3, 5, generator=g), torch.randn(3, 5, generator=g)
    expected = torch.nn.functional.kl_div(
        q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True
    ).sum(-1)
    torch.testing.assert_close(metrics.kl_divergence(p, q), expected)
    assert metrics.kl_divergence(p, p).abs().max() < 1e-6


def test_top1_agreement():
    a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert metrics.top1_agreement(a, a) == 1 and metrics.top1_agreement(a, -a) == 0


def test_gini():
    assert metrics.gini(torch.ones(10)) == pytest.approx(0)
    assert metrics.gini(torch.tensor([0.0, 0, 0, 1])) == pytest.approx(0.75)
