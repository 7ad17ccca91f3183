"""How a notebook starts, on which device it runs, and how its time and memory are measured.

Belongs here: the start of a run, parameter checks, devices, seeds, timers, progress bars.
Not here: anything that knows a model, a data set or a chapter.
"""

from __future__ import annotations

import ast
import os
import platform
import random
import sys
import time
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata

import torch

from labbook.errors import BookError

SCALES = ("laptop", "study", "gpu", "paper")
DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
PACKAGES = ("labbook", "torch", "transformers", "numpy")


@dataclass
class Run:
    """One execution of a notebook: where it runs, with which seeds, since when."""

    chapter: str
    scale: str
    device: torch.device
    dtype: torch.dtype
    seeds: list[int]
    parameters: dict[str, object]
    versions: dict[str, str]
    started: float = field(default_factory=time.perf_counter)

    def seconds(self) -> float:
        """Wall time since `start`, in seconds."""
        return time.perf_counter() - self.started

    def generator(self, seed: int, device: str | torch.device = "cpu") -> torch.Generator:
        """A seeded random generator; the CPU default gives the same numbers everywhere."""
        return torch.Generator(device=device).manual_seed(seed)

    def peak_memory_bytes(self) -> int:
        """Peak memory so far: of the device on CUDA, of the whole process elsewhere."""
        return peak_memory_bytes(self.device)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""
        versions = ", ".join(f"{k} {v}" for k, v in self.versions.items())
        return (
            f"{self.chapter} at scale {self.scale}: device {self.device} {name}".rstrip()
            + f", {str(self.dtype).removeprefix('torch.')}, "
            f"{torch.get_num_threads()} threads, seeds {self.seeds}\n{versions}"
        )


def start(chapter: str, namespace: dict[str, object]) -> Run:
    """Check the parameters, pick the device, seed everything, print what the run runs on.

    Parameters
    ----------
    chapter : str
        Slug of the chapter, used for messages and for the ledger.
    namespace : dict
        The notebook's ``globals()``. The annotated names of its ``parameters`` cell are its
        parameters; what Papermill injected is compared with them by name and type.

    Raises
    ------
    BookError
        Unknown parameter, wrong type, unknown scale or dtype, missing device.
    """
    parameters = check_parameters(namespace, _cell_history())
    scale = parameters["scale"]
    if scale not in SCALES:
        raise BookError(f"unknown scale {scale!r}; choose one of {', '.join(SCALES)}")
    if parameters["n_seeds"] < 1:
        raise BookError(f"n_seeds = {parameters['n_seeds']}; at least 1 is needed")
    device = pick_device(parameters["device"])
    dtype = DTYPES.get(parameters["dtype"])
    if dtype is None:
        raise BookError(f"unknown dtype {parameters['dtype']!r}; choose one of {', '.join(DTYPES)}")
    set_threads()
    seeds = [1000 * parameters["seed"] + k for k in range(parameters["n_seeds"])]
    seed_everything(seeds[0])
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "from source"
    run = Run(chapter, scale, device, dtype, seeds, parameters, versions)
    print(run)
    return run


def _cell_history() -> list[str]:
    """Sources of the cells executed so far; empty outside IPython."""
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell else None
    return list(shell.user_ns.get("In", [])) if shell else []


def _assigned(source: str, kind: type) -> list[str]:
    """Names that a cell assigns at its top level, by plain or annotated assignment."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a cell with magics
        return []
    if kind is ast.AnnAssign:
        return [n.target.id for n in body if isinstance(n, kind) and isinstance(n.target, ast.Name)]
    return [t.id for n in body if isinstance(n, kind) for t in n.targets if isinstance(t, ast.Name)]


def check_parameters(
    namespace: dict[str, object], history: list[str] | None = None
) -> dict[str, object]:
    """Return the notebook's parameters; stop where injected ones do not fit them.

    Parameters
    ----------
    namespace : dict
        Globals of the notebook, with ``__annotations__``. An int where a float is annotated
        is converted in place.
    history : list of str
        Sources of the cells run so far. The cell that annotates ``scale`` is the parameters
        cell; the cells after it that start with ``# Parameters`` were injected by Papermill.
    """
    annotations = dict(namespace.get("__annotations__", {}))
    history = history or []
    declared = next(
        (i for i, s in enumerate(history) if "scale" in _assigned(s, ast.AnnAssign)), None
    )
    if declared is not None:
        names = _assigned(history[declared], ast.AnnAssign)
        annotations = {k: annotations[k] for k in names if k in annotations}
    missing = [k for k in ("scale", "seed", "n_seeds", "device", "dtype") if k not in annotations]
    if missing:
        raise BookError(
            "this notebook has no complete parameters cell: annotate "
            f"{', '.join(missing)} in a cell tagged 'parameters' that runs before start()"
        )
    for i, source in enumerate(history):
        if not source.lstrip().startswith("# Parameters"):
            continue
        if declared is not None and i < declared:
            raise BookError(
                "the injected parameters were overwritten: the notebook's parameters cell "
                "lacks the tag 'parameters'"
            )
        unknown = [k for k in _assigned(source, ast.Assign) if k not in annotations]
        if unknown:
            raise BookError(
                f"unknown parameter {', '.join(unknown)}; this chapter knows "
                f"{', '.join(annotations)}"
            )
    for name, annotation in annotations.items():
        namespace[name] = check_value(name, namespace[name], annotation)
    return {name: namespace[name] for name in annotations}


def check_value(name: str, value: object, annotation: object) -> object:
    """A parameter's value, an int as a float where that is asked for; stop where it misfits.

    The annotation may be its source text, as `labbook.chapters.parameters` gives it.
    """
    if isinstance(annotation, str):
        annotation = eval(annotation, dict(vars(typing)))
    if annotation is float and type(value) is int:
        return float(value)
    if not _fits(value, annotation):
        hint = ""
        if annotation is float and isinstance(value, str):
            hint = "; in YAML write 1.0e-4, since 1e-4 is a string"
        shown = getattr(annotation, "__name__", str(annotation))
        if typing.get_args(annotation):
            shown = str(annotation)
        raise BookError(
            f"parameter {name} = {value!r} is {type(value).__name__}, expected {shown}{hint}"
        )
    return value


def _fits(value: object, annotation: object) -> bool:
    """Whether a value fits a simple annotation (scalars, lists, tuples, unions, Literal)."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is typing.Any:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, a) for a in args)
    if origin is typing.Literal:
        return value in args
    if origin in (list, tuple):
        inner = args[0] if args else typing.Any
        return isinstance(value, (list, tuple)) and all(_fits(v, inner) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, annotation)


def pick_device(name: str = "auto") -> torch.device:
    """``auto`` is CUDA, then MPS, then the CPU; anything else must exist."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(k for k, there in available.items() if there))
    kind = name.split(":")[0]
    if kind not in available:
        raise BookError(f"unknown device {name!r}; choose auto, cuda, cuda:N, mps or cpu")
    if not available[kind]:
        raise BookError(
            f"device {name!r} was asked for and this machine has none; "
            "pass device=auto or device=cpu, or run where there is one"
        )
    device = torch.device(name)
    if kind == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BookError(
            f"device {name!r} was asked for; this machine has "
            f"{torch.cuda.device_count()} CUDA devices"
        )
    return device


def set_threads() -> None:
    """Use ``LABBOOK_THREADS`` torch threads where it is set (two runs on two cores: 1)."""
    wanted = os.environ.get("LABBOOK_THREADS")
    if not wanted:
        return
    if not wanted.isdigit() or int(wanted) < 1:
        raise BookError(f"LABBOOK_THREADS = {wanted!r}; give a whole number of at least 1")
    torch.set_num_threads(int(wanted))


def seed_everything(seed: int) -> None:
    """Seed Python and torch; library code may use the global generators."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its queue; nothing to do on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def timed(
    function: Callable[[], object], device: torch.device, repeats: int = 3, warmup: int = 1
) -> list[float]:
    """Seconds of each of `repeats` calls, the device synchronised before and after each.

    The first `warmup` calls are not counted: they pay for allocation and kernel selection.
    """
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return seconds


def peak_memory_bytes(device: torch.device) -> int:
    """Peak bytes allocated on a CUDA device, or peak resident bytes of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def progress(items: Iterable, what: str, total: int | None = None) -> Iterator:
    """Iterate with a progress bar on stderr; it vanishes when the loop is done."""
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, leave=False, mininterval=0.5)


@contextmanager
def stopwatch(device: torch.device | None = None) -> Iterator[list[float]]:
    """``with stopwatch(device) as t: ...`` appends the seconds of the block to ``t``."""
    result: list[float] = []
    if device is not None:
        synchronize(device)
    begin = time.perf_counter()
    yield result
    if device is not None:
        synchronize(device)
    result.append(time.perf_counter() - begin)
