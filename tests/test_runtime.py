"""Parameters, devices, seeds, timers."""

from typing import Literal

import pytest
import torch

from labbook import runtime
from labbook.errors import BookError

CELL = """\
scale: str = "laptop"  # scale
seed: int = 0  # seed
n_seeds: int = 2  # runs
device: str = "cpu"  # device
dtype: str = "float32"  # dtype
lr: float = 1.0e-3  # 1/step
sizes: list[int] = [1, 2]  # tokens
"""


def namespace(extra: str = "") -> dict:
    """Globals of a notebook whose parameters cell, then `extra`, was executed."""
    values: dict = {}
    exec(CELL, values)
    exec(extra, values)
    return values


def check(extra: str, marker: str = "# Parameters\n") -> dict:
    return runtime.check_parameters(namespace(extra), ["", CELL, marker + extra])


def test_start_gives_seeds_device_and_versions(capsys):
    run = runtime.start("demo", namespace("seed = 3\nn_seeds = 2"))
    assert run.seeds == [3000, 3001]
    assert run.device.type == "cpu" and run.dtype is torch.float32
    assert "torch" in capsys.readouterr().out
    assert run.peak_memory_bytes() > 1_000_000


def test_good_overrides_pass_and_ints_become_floats():
    values = check("lr = 1\nsizes = [3]")
    assert values["lr"] == 1.0 and isinstance(values["lr"], float)
    assert values["sizes"] == [3]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("learning_rate = 0.1", "unknown parameter learning_rate; this chapter knows scale, seed"),
        ("lr = '1e-4'", "in YAML write 1.0e-4"),
        ("seed = 1.5", "parameter seed = 1.5 is float, expected int"),
        ("seed = True", "is bool, expected int"),
        ("sizes = ['a']", "expected list"),
    ],
)
def test_bad_parameters_are_named(extra, message):
    with pytest.raises(BookError, match=message.replace(".", r"\.")):
        check(extra)


def test_injection_before_an_untagged_parameters_cell_is_found():
    with pytest.raises(BookError, match="lacks the tag 'parameters'"):
        runtime.check_parameters(namespace(), ["# Parameters\nseed = 5", CELL])


def test_no_parameters_cell():
    with pytest.raises(BookError, match="no complete parameters cell"):
        runtime.start("demo", {"scale": "laptop"})


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("scale = 'huge'", "unknown scale 'huge'; choose one of laptop, study, gpu, paper"),
        ("dtype = 'int7'", "unknown dtype 'int7'"),
        ("device = 'tpu'", "unknown device 'tpu'"),
        ("n_seeds = 0", "at least 1"),
    ],
)
def test_start_rejects(extra, message):
    with pytest.raises(BookError, match=message):
        runtime.start("demo", namespace(extra))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_missing_gpu_is_said():
    with pytest.raises(BookError, match="device 'cuda' was asked for and this machine has none"):
        runtime.pick_device("cuda")


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (None, int | None, True),
        ("a", int | None, False),
        ("x", Literal["x", "y"], True),
        ("z", Literal["x", "y"], False),
        ({}, dict[str, int], True),
        ((1, 2), tuple[int, ...], True),
    ],
)
def test_fits(value, annotation, fits):
    assert runtime._fits(value, annotation) is fits


def test_threads_from_the_environment(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setenv("LABBOOK_THREADS", "1")
    runtime.set_threads()
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    monkeypatch.setenv("LABBOOK_THREADS", "many")
    with pytest.raises(BookError, match="LABBOOK_THREADS"):
        runtime.set_threads()


def test_timed_counts_only_after_the_warmup():
    calls = []
    seconds = runtime.timed(lambda: calls.append(1), torch.device("cpu"), repeats=3, warmup=2)
    assert len(seconds) == 3 and len(calls) == 5 and min(seconds) >= 0


def test_error_is_one_line_in_a_notebook():
    assert BookError("do this")._render_traceback_() == ["BookError: do this"]
