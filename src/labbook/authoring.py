"""For authors: execute a notebook in place, find stale ones, check one, begin a new chapter.

``python -m labbook.authoring execute|execute-stale|check|new``; the Makefile calls it.
Readers and batch runs never need this module.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from labbook import chapters, contract
from labbook.errors import BookError

_BAR = re.compile(r"\d+%\||\dit/s|\ds/it|\?it/s")  # what a tqdm bar leaves on stderr

PARTS = {
    "inference": "Inference on a budget",
    "language_models": "Teaching and trusting language models",
    "federated": "Many parties, one model",
    "representations": "Representations",
    "vision": "Seeing and generating",
    "agents": "Agents that must be right",
}


def execute(path: Path) -> None:
    """Run a notebook from top to bottom and put its outputs in place.

    The file is replaced only when every cell ran; otherwise the partial notebook is left
    beside it as ``<name>.failed.ipynb`` and the committed one stays as it was.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from tqdm import tqdm

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        cell.metadata.pop("execution", None)
    count = sum(c.cell_type == "code" for c in notebook.cells)
    failed = path.with_suffix(".failed.ipynb")
    with tqdm(total=count, desc=path.stem, unit="cell", leave=False) as bar:
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(chapters.root())}},
            on_cell_executed=lambda **_: bar.update(),
        )
        try:
            client.execute()
        except CellExecutionError as error:
            nbformat.write(notebook, failed)
            last = f"{error.ename}: {error.evalue}"
            raise BookError(f"{path.name} stopped ({last}); its outputs so far: {failed}") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in map(_without_bars, cell.outputs) if o is not None]
    notebook.metadata.pop("papermill", None)
    notebook.metadata["labbook"] = {"inputs": chapters.inputs_hash(path)}
    temporary = path.with_suffix(".tmp")
    nbformat.write(notebook, temporary)
    os.replace(temporary, path)
    failed.unlink(missing_ok=True)


def _without_bars(output):
    """The output without progress bars; None when nothing else was in it."""
    if output["output_type"] != "stream" or output["name"] != "stderr":
        return output
    lines = [
        x for x in re.split(r"[\r\n]+", output["text"]) if x.strip(" \x1b[A") and not _BAR.search(x)
    ]
    if not lines:
        return None
    output["text"] = "\n".join(lines) + "\n"
    return output


def stale() -> list[Path]:
    """Notebooks of the table of contents whose code, claims or data changed since they ran."""
    return [
        path
        for path in chapters.notebooks().values()
        if chapters.read_notebook(path)["metadata"].get("labbook", {}).get("inputs")
        != chapters.inputs_hash(path)
    ]


def new(slug: str, part: str, title: str) -> list[Path]:
    """Begin a chapter: notebook, claims, parameter files, test, benchmark, table of contents."""
    from labbook import skeleton

    if not re.fullmatch(r"[a-z][a-z0-9_]*", slug):
        raise BookError(f"SLUG={slug!r}; use lower-case letters, digits and _, a letter first")
    if part not in PARTS:
        raise BookError(f"PART={part!r}; choose one of {', '.join(PARTS)}")
    if not title.strip():
        raise BookError("TITLE is empty")
    top = chapters.root()
    files = skeleton.files(slug, part, title.strip())
    for name in files:
        if (top / name).exists():
            raise BookError(f"{name} is there already; nothing was written")
    toc = skeleton.toc_with(
        (top / "_toc.yml").read_text(), f"book/{part}/{slug}", PARTS[part], list(PARTS.values())
    )
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text, encoding="utf-8")
    (top / "_toc.yml").write_text(toc)
    return [top / name for name in files]


def _paths(slugs: list[str]) -> list[Path]:
    known = chapters.notebooks()
    return [known[s] if s in known else chapters.find(s).path for s in slugs]


def main(arguments: list[str]) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m labbook.authoring")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("execute", help="run notebooks in place")
    one.add_argument("slugs", nargs="+")
    every = commands.add_parser("execute-stale", help="run those that changed since they ran")
    every.add_argument("--check", action="store_true", help="print them, exit 1 if there are any")
    check = commands.add_parser("check", help="say which rules of the book a chapter breaks")
    check.add_argument("slugs", nargs="*")
    begin = commands.add_parser("new", help="begin a chapter")
    for name in ("slug", "part", "title"):
        begin.add_argument(name)
    options = parser.parse_args(arguments)
    try:
        if options.command == "execute":
            for path in _paths(options.slugs):
                execute(path)
        elif options.command == "execute-stale":
            if options.check:
                paths = stale()
                print("".join(f"{path.stem} must be executed again\n" for path in paths), end="")
                return 1 if paths else 0
            # The ledger page comes last and reads the others: look again after each run.
            for path in chapters.notebooks().values():
                if path in stale():
                    print(f"executing {path.stem}", flush=True)
                    execute(path)
        elif options.command == "check":
            slugs = options.slugs or list(chapters.listed())
            lines = [line for slug in slugs for line in contract.problems(chapters.find(slug).path)]
            print("".join(f"{line}\n" for line in lines), end="")
            return 1 if lines else 0
        else:
            for path in new(options.slug, options.part, options.title):
                print(path.relative_to(chapters.root()))
    except BookError as error:
        print(f"labbook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    from labbook import authoring

    sys.exit(authoring.main(sys.argv[1:]))
