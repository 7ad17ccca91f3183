"""Pretrained models: from a pinned package, a local folder, or the Hub by id.

Belongs here: loading, and small architectures that several chapters train.
Not here: what a chapter does to a model.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from labbook import assets, gguf
from labbook.errors import BookError


def load_causal_lm(
    name: str = "smollm2-135m-instruct",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    revision: str | None = None,
):
    """A causal language model in evaluation mode, and its tokenizer.

    Parameters
    ----------
    name : str
        An asset of `labbook.assets` (needs pip once, no Hub), a local folder in transformers'
        format, or a Hub id such as ``Qwen/Qwen3-8B``.
    revision : str, optional
        Commit, tag or branch of a Hub id. Fixed for a reproducible run.

    Returns
    -------
    model, tokenizer
        Attention runs through ``scaled_dot_product_attention``; weights have `dtype`.

    Raises
    ------
    BookError
        The name is none of the three, or cannot be fetched.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, options = _resolve(name, revision)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, attn_implementation="sdpa", **options
        )
    except (OSError, ValueError) as error:
        raise BookError(_load_problem(name, error)) from error
    return model.to(device).eval(), tokenizer


@torch.inference_mode()
def greedy(
    model: nn.Module,
    tokenizer,
    prompts: list[torch.Tensor],
    new_tokens: int,
    repetition_penalty: float = 1.1,
) -> list[torch.Tensor]:
    """Greedy answers to prompts ``[1, n_i]`` of token ids, generated in one padded batch.

    Returns
    -------
    list of Tensor [1, m_i]
        Ids up to, and without, the end token; at most `new_tokens`. The small models of the
        book fall into loops without a repetition penalty.
    """
    if not prompts or new_tokens < 1:
        raise ValueError(f"{len(prompts)} prompts, new_tokens = {new_tokens}; need at least 1")
    width, end = max(p.shape[1] for p in prompts), tokenizer.eos_token_id
    pad = nn.functional.pad
    ids = torch.cat([pad(p, (width - p.shape[1], 0), value=end) for p in prompts])
    real = torch.cat([pad(torch.ones_like(p), (width - p.shape[1], 0)) for p in prompts])
    new = model.generate(
        ids,
        attention_mask=real,
        max_new_tokens=new_tokens,
        do_sample=False,
        repetition_penalty=repetition_penalty,
        pad_token_id=end,
    )[:, width:]
    stops = pad(new == end, (0, 1), value=True)  # one end after the last token
    return [row[None, :n] for row, n in zip(new, stops.int().argmax(1).tolist())]


class TextEncoder(nn.Module):
    """Sentence embeddings: mean over the last hidden states, then unit length."""

    def __init__(self, model: nn.Module, tokenizer):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer

    @torch.inference_mode()
    def encode(self, texts: list[str], batch_size: int = 32, max_length: int = 256) -> torch.Tensor:
        """Float32 unit vectors ``[len(texts), width]`` on the CPU, in the order given."""
        if not texts:
            raise ValueError("texts = []; at least one text is needed")
        device = self.model.device
        # Sorted by length: less padding, the same vectors.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        rows: list[torch.Tensor] = []
        for begin in range(0, len(texts), batch_size):
            batch = self.tokenizer(
                [texts[i] for i in order[begin : begin + batch_size]],
                padding=True, truncation=True, max_length=max_length, return_tensors="pt",
            ).to(device)  # fmt: skip
            hidden = self.model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].to(hidden.dtype)
            rows.append((hidden * mask).sum(1) / mask.sum(1))
        vectors = torch.nn.functional.normalize(torch.cat(rows).float(), dim=1).cpu()
        result = torch.empty_like(vectors)
        result[torch.tensor(order)] = vectors
        return result


def load_text_encoder(
    name: str = "all-minilm-l6-v2",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    revision: str | None = None,
) -> TextEncoder:
    """A mean-pooling sentence encoder; `name` as in `load_causal_lm`."""
    from transformers import AutoModel, AutoTokenizer

    source, options = _resolve(name, revision)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = AutoModel.from_pretrained(source, dtype=dtype, **options)
    except (OSError, ValueError) as error:
        raise BookError(_load_problem(name, error)) from error
    return TextEncoder(model.to(device).eval(), tokenizer)


def random_causal_lm(
    shape: dict[str, int | float],
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
):
    """A Llama of a given shape with random weights: for timing, never for accuracy.

    `shape` holds fields of ``transformers.LlamaConfig``. Weights are created on `device` in
    `dtype`, so that 8 B parameters never pass through the host.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**shape, attn_implementation="sdpa")
    torch.manual_seed(seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval()


def _resolve(name: str, revision: str | None) -> tuple[str | Path, dict[str, object]]:
    """Folder or Hub id for transformers, and the options that keep it off the network."""
    if name in assets.TABLE:
        if assets.find(name).member.endswith(".gguf"):
            return _converted(name), {"local_files_only": True}
        return assets.path(name), {"local_files_only": True}
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser(), {"local_files_only": True}
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name, {"revision": revision}
    raise BookError(
        f"unknown model {name!r}: not an asset ({', '.join(sorted(assets.TABLE))}), "
        "not a folder, not a Hub id (owner/name)"
    )


def _load_problem(name: str, error: Exception) -> str:
    detail = (
        str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
    )
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        detail += " (HF_HUB_OFFLINE=1 is set)"
    return (
        f"model {name!r} could not be loaded: {detail}; where there is a network, run: "
        f"hf download {name}"
    )


def _converted(name: str) -> Path:
    """Folder with the asset's GGUF weights as float32 safetensors, converted once."""
    asset = assets.find(name)
    source = assets.path(name)
    return assets.cached(f"{name}-{asset.sha256[:12]}-safetensors-1", lambda t: _convert(source, t))


def _convert(source: Path, target: Path) -> None:
    from safetensors.torch import save_file
    from tqdm import tqdm
    from transformers import GenerationConfig, LlamaConfig

    with tqdm(total=3, desc=f"converting {source.name}", leave=False) as bar:
        metadata, tensors = gguf.read(source)
        bar.update()
        settings, state = gguf.llama(metadata, tensors)
        theta = settings.pop("rope_theta")
        config = LlamaConfig(
            **settings,
            rope_parameters={"rope_type": "default", "rope_theta": theta},
            architectures=["LlamaForCausalLM"],
            dtype="float32",
        )
        if config.tie_word_embeddings:
            del state["lm_head.weight"]
        config.save_pretrained(target)
        ids = {k: settings[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")}
        GenerationConfig(**ids).save_pretrained(target)
        gguf.tokenizer(metadata).save_pretrained(target)
        bar.update()
        contiguous = {k: v.contiguous() for k, v in state.items()}
        save_file(contiguous, target / "model.safetensors", metadata={"format": "pt"})
        bar.update()
