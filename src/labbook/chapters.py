"""List, inspect and load the chapters. The only module that knows their names.

``chapter(slug)`` executes the cells tagged ``method`` of a notebook, and only those, and
returns them as a module: the page is the source of the library.
"""

from __future__ import annotations

import ast
import hashlib
import json
import linecache
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path

from labbook.errors import BookError

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Chapter:
    """A notebook of the book."""

    slug: str
    part: str
    path: Path
    title: str


def root() -> Path:
    """Folder that holds ``book/`` and ``_toc.yml``.

    ``LABBOOK_ROOT`` where it is set, else the checkout, else the copy inside the wheel.
    """
    if os.environ.get("LABBOOK_ROOT"):
        chosen = Path(os.environ["LABBOOK_ROOT"]).resolve()
        if not (chosen / "_toc.yml").is_file():
            raise BookError(f"LABBOOK_ROOT = {chosen} has no _toc.yml")
        return chosen
    checkout = _HERE.parents[1]
    if (checkout / "_toc.yml").is_file() and (checkout / "book").is_dir():
        return checkout
    installed = _HERE / "_book"
    if (installed / "_toc.yml").is_file():
        return installed
    raise BookError("the notebooks are not installed; reinstall labbook from its wheel or checkout")


def notebooks() -> dict[str, Path]:
    """Every notebook of the table of contents, in its order: chapters and the ledger page."""
    import yaml

    top = root()
    try:
        toc = yaml.safe_load((top / "_toc.yml").read_text())
    except yaml.YAMLError as error:
        raise BookError(f"cannot read {top / '_toc.yml'}: {error}") from error
    entries = [e for part in toc.get("parts", []) for e in part.get("chapters", [])]
    paths = [top / f"{entry.get('file', '')}.ipynb" for entry in entries]
    return {path.stem: path for path in paths if path.is_file()}


def listed() -> dict[str, Chapter]:
    """The chapters in the order of the table of contents, by slug.

    A chapter is a notebook with a claims file beside it; the ledger page has none.
    """
    return {
        slug: Chapter(slug, path.parent.name, path, _title(read_notebook(path)))
        for slug, path in notebooks().items()
        if path.with_suffix(".claims.yaml").is_file()
    }


def find(slug: str) -> Chapter:
    """The chapter of that name, listed or not; an unknown name lists the known ones."""
    for path in sorted((root() / "book").glob("*/*.ipynb")):
        if path.stem == slug and path.with_suffix(".claims.yaml").is_file():
            return Chapter(slug, path.parent.name, path, _title(read_notebook(path)))
    known = ", ".join(listed()) or "none yet"
    raise BookError(f"unknown chapter {slug!r}; the book has: {known}")


def read_notebook(path: Path) -> dict:
    """A notebook as its JSON; a broken file is named."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BookError(f"cannot read the notebook {path}: {error}") from error


def source(cell: dict) -> str:
    """Source of a cell as one string."""
    return "".join(cell["source"])


def tagged(notebook: dict, tag: str) -> list[str]:
    """Sources of the code cells with a tag, in order."""
    return [
        source(cell)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and tag in cell["metadata"].get("tags", [])
    ]


def _title(notebook: dict) -> str:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for line in source(cell).splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return "untitled"


def parameters(notebook: dict) -> dict[str, tuple[str, object, str]]:
    """Name -> (annotation, default, comment) of the notebook's ``parameters`` cell."""
    cells = tagged(notebook, "parameters")
    if len(cells) != 1:
        raise BookError(f"the notebook has {len(cells)} cells tagged 'parameters'; it needs one")
    lines = cells[0].splitlines()
    found = {}
    for node in ast.parse(cells[0]).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            line = lines[node.end_lineno - 1]
            comment = line[node.end_col_offset :].partition("#")[2].strip()
            default = ast.literal_eval(node.value)
            found[node.target.id] = (ast.unparse(node.annotation), default, comment)
    return found


def chapter(slug: str) -> types.ModuleType:
    """The method of a chapter as a module, without running its experiments.

    Executes the cells tagged ``method``: imports, definitions and constants. `inspect`
    shows the source of what they define.

    Raises
    ------
    BookError
        Unknown chapter; the message lists the known ones.

    Examples
    --------
    >>> from labbook import chapter
    >>> relay = chapter("relaycaching")
    """
    found = find(slug)
    return load_method(found.path, f"labbook.chapter_{slug}")


def load_method(path: Path, name: str) -> types.ModuleType:
    """The ``method`` cells of any notebook as a module called `name`."""
    text = "\n\n".join(tagged(read_notebook(path), "method")) + "\n"
    filename = f"<method cells of {path.name}>"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__source__", None) == text:
        return known
    module = types.ModuleType(name, f"Method cells of {path.name}.")
    module.__file__, module.__source__ = filename, text
    # inspect and tracebacks read the source from here.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    sys.modules[name] = module
    try:
        exec(compile(text, filename, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def inputs_hash(path: Path) -> str:
    """sha256 over what a notebook's outputs depend on: its code, its claims, its data.

    Stored in the notebook's metadata when it is executed. For the ledger page the inputs
    are the ledgers of all chapters.
    """
    digest = hashlib.sha256()
    for cell in read_notebook(path)["cells"]:
        if cell["cell_type"] == "code":
            digest.update(source(cell).encode() + b"\0")
    beside = [path.with_suffix(".claims.yaml")]
    beside += sorted((root() / "book" / "data" / path.stem).glob("*"))
    for file in beside:
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    if path.stem == "ledger":
        from labbook import ledger

        for file in [c.path for c in listed().values()]:
            recorded = sorted((root() / "book" / "data" / file.stem).glob("*.json"))
            for one in [file, *recorded]:
                digest.update(json.dumps(ledger.read(one), sort_keys=True).encode())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """``python -m labbook.chapters``: one line for each chapter."""
    try:
        for found in listed().values():
            print(f"{found.slug:<20} {found.part:<18} {found.title}")
    except BookError as error:
        print(f"labbook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    from labbook import chapters

    sys.exit(chapters.main(sys.argv[1:]))
