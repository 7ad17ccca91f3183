"""Run one chapter at one scale with one seed; the Snakefile calls it for each of its jobs.

    python workflow/run_chapter.py SLUG SCALE SEED OUTPUT

Papermill writes to a temporary file beside OUTPUT, which is renamed into place when every
cell ran. A run that fails or is stopped leaves the outputs so far as ``<name>.failed.ipynb``.
What the cells print goes to ``<name>.log``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import yaml

from labbook import chapters, runtime
from labbook.errors import BookError

SETTINGS = ("scale", "chapters", "seeds", "jobs")


def batch(config: dict) -> tuple[str, list[str], list[int], int]:
    """Scale, chapters, seeds and jobs at once of a batch, checked before anything runs."""
    unknown = sorted(set(config) - set(SETTINGS))
    if unknown:
        raise BookError(f"unknown setting {', '.join(unknown)}; use {', '.join(SETTINGS)}")
    scale = str(config.get("scale", "laptop"))
    slugs = _items(config.get("chapters", "all"))
    slugs = list(chapters.listed()) if slugs == ["all"] else slugs
    seeds = [_whole("seeds", item, 0) for item in _items(config.get("seeds", 0))]
    if not slugs or not seeds:
        raise BookError("nothing to run: give chapters=all or chapters=a,b and seeds=0,1")
    for slug in slugs:
        parameters(slug, scale, seeds[0])
    # Two at once fit into the memory of a laptop; a GPU is not shared.
    jobs = _whole("jobs", config.get("jobs", 2 if scale in ("laptop", "study") else 1), 1)
    return scale, slugs, seeds, min(jobs, len(slugs) * len(seeds))


def _items(value: object) -> list[str]:
    """``a,b`` or a list, without repetitions; one number arrives as an int."""
    items = value if isinstance(value, list) else str("" if value is None else value).split(",")
    return list(dict.fromkeys(str(item).strip() for item in items if str(item).strip()))


def _whole(name: str, value: object, least: int) -> int:
    if not re.fullmatch(r"\d+", str(value)) or int(value) < least:
        raise BookError(f"{name}={value} is not a whole number of at least {least}")
    return int(value)


def parameters(slug: str, scale: str, seed: int) -> dict[str, object]:
    """What Papermill injects: the scale's file, the scale and the seed, checked by type."""
    if scale not in runtime.SCALES:
        raise BookError(f"unknown scale {scale!r}; choose one of {', '.join(runtime.SCALES)}")
    notebook = chapters.read_notebook(chapters.find(slug).path)
    name, given = slug, {}
    try:
        known = chapters.parameters(notebook)
        if scale != "laptop":  # the notebook's own values
            name = f"book/params/{scale}/{slug}.yaml"
            given = _read(chapters.root() / name)
            if given.get("scale") != scale:
                raise BookError(f"it must contain the line 'scale: {scale}'")
        given = {**given, "scale": scale, "seed": seed}
        unknown = [key for key in given if key not in known]
        if unknown:
            raise BookError(
                f"unknown parameter {', '.join(unknown)}; the chapter knows {', '.join(known)}"
            )
        return {key: runtime.check_value(key, given[key], known[key][0]) for key in given}
    except BookError as error:
        raise BookError(f"{name}: {error}") from None


def fingerprint(slug: str, scale: str, seed: int) -> str:
    """What a finished run depends on, its code and its parameters: a change runs it again."""
    notebook = chapters.read_notebook(chapters.find(slug).path)
    code = [chapters.source(c) for c in notebook["cells"] if c["cell_type"] == "code"]
    text = json.dumps([code, parameters(slug, scale, seed)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> dict[str, object]:
    try:
        given = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise BookError("there is no such file; write it, or choose another scale") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BookError(f"cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(given, dict):
        raise BookError("it must consist of lines 'name: value'")
    return given


def run(slug: str, scale: str, seed: int, output: Path) -> int:
    """Execute the chapter; 0 where OUTPUT was written, else the exit code."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    given = parameters(slug, scale, seed)
    output.parent.mkdir(parents=True, exist_ok=True)
    log, failed = output.with_suffix(".log"), output.with_suffix(".failed.ipynb")
    # Not called .ipynb: nobody shall take it for a result.
    partial = output.absolute().with_name(f"{output.stem}.{os.getpid()}.json")
    begin, what = time.time(), f"{slug} {scale} seed {seed}"
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    with open(log, "w", encoding="utf-8", buffering=1) as stream:
        print(f"{what}, started {time.strftime('%F %T')}\n{given}", file=stream)
        try:
            papermill.execute_notebook(
                chapters.find(slug).path,
                partial,
                parameters=given,
                kernel_name="python3",
                cwd=chapters.root(),
                extra_arguments=["--log-level=ERROR"],
                stdout_file=stream,
                stderr_file=stream,
                progress_bar={
                    "desc": what,
                    "bar_format": "{desc}: {n_fmt} of {total_fmt} cells, {elapsed}",
                    "mininterval": 5,
                    "file": _Lines(),
                },
            )
        except BaseException as error:
            _ignore_signals()
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, PapermillExecutionError):
                print(_plain("\n".join(error.traceback)), file=stream)
                reason = f"{error.ename}: {error.evalue}"
            elif isinstance(error, SystemExit):
                reason = f"stopped by signal {error.code - 128}"
            reason = next(iter(_plain(reason).strip().splitlines()), "no message")
            print(f"failed after {time.time() - begin:.0f} s ({reason})", file=stream)
            if partial.exists():
                os.replace(partial, failed)
            print(f"labbook: {what} failed ({reason}); log: {log}", file=sys.stderr)
            return error.code if isinstance(error, SystemExit) else 1
        _ignore_signals()
        print(f"finished after {time.time() - begin:.0f} s", file=stream)
    os.replace(partial, output)
    failed.unlink(missing_ok=True)
    for left in output.parent.glob(f"{output.stem}.*.json"):  # of runs that were killed
        left.unlink(missing_ok=True)
    return 0


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _ignore_signals() -> None:
    """From here on nothing interrupts, to the end of the process: files find their place."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class _Lines:
    """A stream that prints a progress bar as lines: several runs share the terminal."""

    def write(self, text: str) -> None:
        """Print what the bar shows; ignore its line ends and cursor movements."""
        if _plain(text).strip():
            sys.stderr.write(_plain(text).strip() + "\n")

    def flush(self) -> None:
        """Nothing is kept back."""


def main(arguments: list[str]) -> int:
    """The command line of this file."""
    parser = argparse.ArgumentParser(description="Run one chapter at one scale and seed.")
    parser.add_argument("slug")
    parser.add_argument("scale", help=", ".join(runtime.SCALES))
    parser.add_argument("seed", type=int)
    parser.add_argument("output", type=Path, help="the executed notebook, written at the end")
    options = parser.parse_args(arguments)
    try:
        return run(options.slug, options.scale, options.seed, options.output)
    except BookError as error:
        print(f"labbook: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
