"""Loading from a local folder, the GGUF reader, random shapes; no download."""

import struct

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizer, LlamaConfig, LlamaForCausalLM

from labbook import gguf, models
from labbook.errors import BookError

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def test_random_model_has_the_shape_and_dtype():
    model = models.random_causal_lm(SHAPE, dtype=torch.bfloat16, seed=1)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() is torch.float32
    assert model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 64)


def test_random_model_is_seeded():
    a, b = (models.random_causal_lm(SHAPE, seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_local_folder_round_trip(tmp_path):
    tokens = ["<pad>", "<unk>", "a", "b"]
    tokenizer = gguf.tokenizer(metadata(tokens))
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again, tok = models.load_causal_lm(str(tmp_path), dtype=torch.float64)
    assert again.dtype is torch.float64 and not again.training
    ids = tok("ab", return_tensors="pt")["input_ids"]
    expected = model.double()(ids).logits
    torch.testing.assert_close(again(ids).logits, expected)


@pytest.mark.parametrize("name", ["nope", "./missing", "a/b/c"])
def test_unknown_model_is_one_line(name):
    with pytest.raises(BookError, match="unknown model") as caught:
        models.load_causal_lm(name)
    assert "\n" not in str(caught.value)


def test_broken_folder_is_one_line(tmp_path):
    with pytest.raises(BookError, match="could not be loaded") as caught:
        models.load_causal_lm(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_hub_without_network_is_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BookError, match="hf download nobody/nothing"):
        models.load_causal_lm("nobody/nothing")


def test_text_encoder_pools_over_real_tokens_only(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(tmp_path)
    BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    encoder = models.load_text_encoder(str(tmp_path))
    alone = encoder.encode(["red"])
    batch = encoder.encode(["red", "green blue red green"])
    assert batch.shape == (2, 16)
    torch.testing.assert_close(batch[:1], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.norm(dim=1), torch.ones(2))
    with pytest.raises(ValueError, match="texts = "):
        encoder.encode([])


def metadata(tokens: list[str]) -> dict:
    ids = {"bos": 0, "eos": 0, "padding": 0, "unknown": 1}
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.chat_template": "{{ messages }}",
        **{f"tokenizer.ggml.{k}_token_id": v for k, v in ids.items()},
    }


def write_gguf(path, tensors: list[tuple[str, tuple[int, ...], int, bytes]]) -> None:
    """A GGUF version 3 file with one string and one array of metadata."""

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 2)
    head += string("general.name") + struct.pack("<I", 8) + string("tiny")
    head += string("numbers") + struct.pack("<IIQ", 9, 5, 2) + struct.pack("<ii", -1, 7)
    table, data = b"", b""
    for name, shape, kind, raw in tensors:
        data += b"\0" * (-len(data) % 32)
        dims = b"".join(struct.pack("<Q", d) for d in shape[::-1])
        table += string(name) + struct.pack("<I", len(shape)) + dims
        table += struct.pack("<IQ", kind, len(data))
        data += raw
    head += table
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def test_gguf_tensors_are_dequantised_exactly(tmp_path):
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(2, 3)).astype("<f4")
    scale, low = np.float16(0.5), np.float16(-1.25)
    nibbles = rng.integers(0, 16, 32)
    packed = (nibbles[:16] | nibbles[16:] << 4).astype("u1").tobytes()
    q4 = scale.tobytes() + low.tobytes() + packed
    codes = rng.integers(-127, 128, 32).astype("i1")
    file = tmp_path / "tiny.gguf"
    tensors = [("a", (2, 3), 0, plain.tobytes()), ("b", (1, 32), 3, q4)]
    write_gguf(file, [*tensors, ("c", (32,), 8, scale.tobytes() + codes.tobytes())])
    values, read = gguf.read(file)
    assert values == {"general.name": "tiny", "numbers": [-1, 7]}
    torch.testing.assert_close(read["a"], torch.from_numpy(plain))
    expected = torch.tensor(nibbles * 0.5 - 1.25, dtype=torch.float32)[None]
    torch.testing.assert_close(read["b"], expected)
    torch.testing.assert_close(read["c"], torch.tensor(codes * 0.5, dtype=torch.float32))


def test_gguf_rejects_other_files_and_types(tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"NOPE" * 8)
    with pytest.raises(ValueError, match="not a GGUF file"):
        gguf.read(file)
    write_gguf(file, [("a", (32,), 12, b"\0" * 64)])
    with pytest.raises(ValueError, match="type 12 is not supported"):
        gguf.read(file)


def test_unpermute_undoes_the_interleaving():
    heads, half, columns = 2, 3, 4
    weight = torch.arange(heads * 2 * half * columns).view(-1, columns).float()
    paired = weight.view(heads, 2, half, columns).transpose(1, 2).reshape(-1, columns)
    torch.testing.assert_close(gguf._unpermute(paired, heads), weight)


def test_digits_are_split_and_special_tokens_kept():
    letters = [*"0123456789ab", "Ġ"]
    tok = gguf.tokenizer(metadata(["<pad>", "<unk>", *letters]))
    assert tok.convert_ids_to_tokens(tok("12")["input_ids"]) == ["1", "2"]
    assert tok.pad_token == "<pad>" and tok("<pad>")["input_ids"] == [0]
