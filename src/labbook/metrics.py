"""Statistics that several chapters report: intervals, divergences, agreements.

Not here: the score of one chapter's method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor


def bootstrap_interval(
    values: Sequence[float] | np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
    resamples: int = 4000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval over the first axis of `values`.

    Parameters
    ----------
    values : array [units] or [units, columns]
        One row for each independent unit (prompt, seed, client).
    statistic : callable, optional
        Maps resamples ``[resamples, units(, columns)]`` to ``[resamples]``; the mean over
        units by default. A ratio of means, say, takes two columns.
    level : float
        Coverage, 0.95 for a 95 % interval.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim not in (1, 2) or len(array) < 2:
        raise ValueError(
            f"values have shape {array.shape}; need [units] or [units, columns], units >= 2"
        )
    if not 0 < level < 1:
        raise ValueError(f"level = {level}; must lie between 0 and 1")
    draw = np.random.default_rng(seed).integers(0, len(array), (resamples, len(array)))
    statistics = array[draw].mean(1) if statistic is None else statistic(array[draw])
    tail = (1 - level) / 2
    low, high = np.quantile(statistics, [tail, 1 - tail])
    return float(low), float(high)


def kl_divergence(reference: Tensor, other: Tensor) -> Tensor:
    """KL(reference || other) in nats for logits ``[..., vocabulary]``: ``[...]``."""
    p, q = reference.float().log_softmax(-1), other.float().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def top1_agreement(reference: Tensor, other: Tensor) -> Tensor:
    """Share of positions with the same most likely token, logits ``[..., vocabulary]``."""
    return (reference.argmax(-1) == other.argmax(-1)).float().mean()


def gini(values: Tensor) -> float:
    """Gini coefficient of non-negative values: 0 when all are equal, towards 1 when one has all."""
    x = torch.sort(values.flatten().double()).values
    n = x.numel()
    if n == 0 or x.sum() <= 0:
        return 0.0
    rank = torch.arange(1, n + 1, dtype=torch.double, device=x.device)
    return float((2 * (rank * x).sum() / (n * x.sum())) - (n + 1) / n)
