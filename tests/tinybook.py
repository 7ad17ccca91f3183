"""A book of small notebooks in a folder, for tests that run notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PARAMETERS = """\
scale: str = "laptop"  # which size of the run
seed: int = 0  # first seed
n_seeds: int = 1  # number of runs
device: str = "auto"  # where it runs
dtype: str = "float32"  # number type
lr: float = 0.5  # step size
"""


def notebook(*cells: str, parameters: str | None = PARAMETERS) -> str:
    """A notebook with a parameters cell, where it has one, and code cells, as JSON."""
    texts = list(cells) if parameters is None else [parameters, *cells]
    first = [] if parameters is None else ["parameters"]
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}
            },
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"cell-{i}",
                    "metadata": {"tags": first if i == 0 else []},
                    "source": text,
                    "outputs": [],
                    "execution_count": None,
                }
                for i, text in enumerate(texts)
            ],
        }
    )


def write(top: Path, chapters: dict[str, str]) -> Path:
    """A book below `top` with these notebooks (JSON by slug) as its chapters."""
    folder = top / "book" / "inference"
    folder.mkdir(parents=True)
    files = "".join(f"      - file: book/inference/{slug}\n" for slug in chapters)
    (top / "_toc.yml").write_text(
        f"format: jb-book\nroot: book/intro\nparts:\n  - caption: A part\n    chapters:\n{files}"
    )
    for slug, text in chapters.items():
        (folder / f"{slug}.ipynb").write_text(text)
        (folder / f"{slug}.claims.yaml").write_text("[]\n")
    return top


def printed(file: Path) -> str:
    """What the cells of an executed notebook printed."""
    outputs = [o for c in json.loads(file.read_text())["cells"] for o in c.get("outputs", [])]
    return "".join("".join(o.get("text", "")) for o in outputs)


def program(name: str) -> str:
    """A command of this environment."""
    return str(Path(sys.executable).with_name(name))


def environment(top: Path) -> dict[str, str]:
    """The variables of a process that works on the book below `top`."""
    kept = {k: v for k, v in os.environ.items() if k != "LABBOOK_THREADS"}
    return {**kept, "LABBOOK_ROOT": str(top)}


def call(top: Path, *command: str) -> subprocess.CompletedProcess:
    """Run a command in the folder of the book, to its end."""
    return subprocess.run(
        [program(command[0]), *command[1:]],
        cwd=top,
        env=environment(top),
        capture_output=True,
        text=True,
        timeout=120,
    )
