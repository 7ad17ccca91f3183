"""What every chapter's notebook must look like, checked by reading it (nothing is run).

`problems` returns one line for each rule that a notebook breaks; the tests and
``python -m labbook.authoring check`` print them.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import types
from pathlib import Path

from labbook import chapters, ledger, runtime

# One heading (level 2) of each kind, in this order.
SECTIONS = (
    "problem",
    "method",
    "does it do what it says",
    "experiment",
    "ledger",
    "full scale",
    "watch out",
    "exercises",
    "further reading",
)
FIRST_PARAMETERS = ("scale", "seed", "n_seeds", "device", "dtype")
MAX_BYTES, MAX_SECONDS, MAX_METHOD_LINES, MAX_LINES = 800_000, 90, 400, 900
CELL_LINES, CELL_COLUMNS = 40, 88


def problems(path: Path) -> list[str]:
    """Rules of the book that the chapter's notebook breaks; empty when it keeps them all."""
    notebook = chapters.read_notebook(path)
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    found = [
        *_text(notebook),
        *_parameters(notebook, path),
        *_code(code),
        *_method(path, notebook),
        *_outputs(code),
        *_ledger(path, code),
        *_files(path, notebook),
    ]
    return [f"{path.stem}: {line}" for line in found]


def _tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def _text(notebook: dict) -> list[str]:
    cells = notebook["cells"]
    first = chapters.source(cells[0]) if cells and cells[0]["cell_type"] == "markdown" else ""
    found = []
    if not first.startswith("# "):
        found.append("the first cell must be markdown that starts with the title, '# ...'")
    text = [chapters.source(c) for c in cells if c["cell_type"] == "markdown"]
    headings = [line for t in text for line in t.splitlines() if line.startswith("## ")]
    at = -1
    for section in SECTIONS:
        hits = [i for i, h in enumerate(headings) if re.search(section, h, re.I) and i > at]
        if not hits:
            found.append(f"section '## ... {section} ...' is missing or out of order")
        else:
            at = hits[0]
    if "{cite" not in " ".join(text):
        found.append("no citation: the paper card cites with {cite}`key`")
    return found


def _parameters(notebook: dict, path: Path) -> list[str]:
    count = len(chapters.tagged(notebook, "parameters"))
    if count != 1:
        return [f"{count} cells tagged 'parameters', not one"]
    known = chapters.parameters(notebook)
    found = []
    if tuple(known)[:5] != FIRST_PARAMETERS:
        found.append(f"the parameters cell must start with {', '.join(FIRST_PARAMETERS)}")
    found += [f"parameter {k} has no comment with its unit" for k, v in known.items() if not v[2]]
    import yaml

    for scale in runtime.SCALES[1:]:
        file = chapters.root() / "book" / "params" / scale / f"{path.stem}.yaml"
        if not file.is_file():
            found.append(f"no parameter file book/params/{scale}/{path.stem}.yaml")
            continue
        given = yaml.safe_load(file.read_text()) or {}
        unknown = set(given) - set(known)
        if unknown:
            found.append(f"{scale} sets unknown parameters {sorted(unknown)}")
        for name in set(given) & set(known):
            if known[name][0] == "float" and isinstance(given[name], str):
                found.append(f"{scale} sets {name} to a string; in YAML write 1.0e-4")
        if given.get("scale") != scale:
            found.append(f"book/params/{scale}/{path.stem}.yaml must set scale: {scale}")
    return found


def _code(code: list[dict]) -> list[str]:
    found, total, method = [], 0, 0
    for i, cell in enumerate(code):
        lines = chapters.source(cell).splitlines()
        written = sum(bool(line.strip()) for line in lines)  # blank lines are free
        total += written
        method += written if "method" in _tags(cell) else 0
        if len(lines) > CELL_LINES:
            found.append(f"code cell {i} has {len(lines)} lines, more than {CELL_LINES}")
        wide = max(map(len, lines), default=0)
        if wide > CELL_COLUMNS:
            found.append(f"code cell {i} has {wide} columns, more than {CELL_COLUMNS}")
    if method > MAX_METHOD_LINES:
        found.append(f"{method} lines of method code, more than {MAX_METHOD_LINES}")
    if total > MAX_LINES:
        found.append(f"{total} lines of code, more than {MAX_LINES}")
    setups = [c for c in code if "labbook.start(" in chapters.source(c)]
    if len(setups) != 1 or "nbval-ignore-output" not in _tags(setups[0]):
        found.append("one setup cell must call labbook.start(...), tagged nbval-ignore-output")
    return found


def _method(path: Path, notebook: dict) -> list[str]:
    found = []
    for text in chapters.tagged(notebook, "method"):
        for node in ast.parse(text).body:
            if not _is_definition(node):
                line = ast.unparse(node).splitlines()[0][:50]
                found.append(f"a method cell runs code: {line}")
    if found:
        return found
    try:
        module = chapters.load_method(path, f"labbook.contract_{path.stem}")
    except Exception as error:
        return [f"the method cells do not load on their own: {error!r}"]
    if not any(isinstance(v, (types.FunctionType, type)) for v in vars(module).values()):
        found.append("no function or class in the cells tagged 'method'")
    names = _global_names(compile(module.__source__, "method", "exec"))
    missing = sorted(n for n in names if n not in vars(module) and not hasattr(builtins, n))
    if missing:
        found.append(f"method cells use names that no method cell defines: {missing}")
    for name, value in vars(module).items():
        own = getattr(value, "__module__", None) == module.__name__
        if own and isinstance(value, (types.FunctionType, type)) and not value.__doc__:
            found.append(f"{name} in a method cell has no docstring")
    return found


def _is_definition(node: ast.stmt) -> bool:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    if isinstance(node, definitions):
        return True
    if isinstance(node, ast.Try):  # imports with a hint for who lacks the package
        return all(isinstance(part, definitions[3:]) for part in node.body)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return not any(isinstance(part, ast.Call) for part in ast.walk(node))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _global_names(code: types.CodeType) -> set[str]:
    """Names that functions of a module look up in its globals."""
    names = set()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for step in dis.get_instructions(constant):
                if step.opname == "LOAD_GLOBAL":
                    names.add(step.argval)
            names |= _global_names(constant)
    return names


def _outputs(code: list[dict]) -> list[str]:
    found = []
    counts = [c["execution_count"] for c in code if chapters.source(c).strip()]
    if counts != list(range(1, len(counts) + 1)):
        found.append("not executed in order from top to bottom; run make execute")
    for i, cell in enumerate(code):
        outputs = cell.get("outputs", [])
        for output in outputs:
            if output["output_type"] == "error" and "raises-exception" not in _tags(cell):
                found.append(f"code cell {i} ends in an error: {output.get('ename')}")
            if output["output_type"] == "stream" and output["name"] == "stderr":
                found.append(f"code cell {i} writes to stderr: {''.join(output['text'])[:80]!r}")
        if any("image/png" in o.get("data", {}) for o in outputs):
            settings = cell["metadata"].get("mystnb", {})
            if not settings.get("image", {}).get("alt"):
                found.append(f"figure in code cell {i} has no alt text (mystnb.image.alt)")
            if not settings.get("figure", {}).get("caption"):
                found.append(f"figure in code cell {i} has no caption (mystnb.figure.caption)")
            if len(outputs) != 1:
                found.append(f"figure cell {i} has {len(outputs)} outputs; it must have one")
    return found


def _ledger(path: Path, code: list[dict]) -> list[str]:
    claims = ledger.read_claims(path.with_suffix(".claims.yaml"))
    holders = [
        i
        for i, c in enumerate(code)
        for o in c.get("outputs", [])
        if ledger.MIME in o.get("data", {})
    ]
    if len(holders) != 1:
        return [f"{len(holders)} ledger outputs, not one"]
    data, found = ledger.read(path), []
    if [c["id"] for c in data["claims"]] != [c["id"] for c in claims]:
        found.append("the ledger shows other claims than the claims file")
    for shown, claim in zip(data["claims"], claims):
        if shown["criterion"] != claim["criterion"]:
            found.append(f"claim {claim['id']} was judged by another criterion")
        pair = None if shown["interval"] is None else tuple(shown["interval"])
        again = ledger.verdict(claim["criterion"], claim["no_effect"], shown["ours"], pair)
        if shown["verdict"] != again:
            found.append(
                f"claim {claim['id']} says {shown['verdict']!r}, its result says {again!r}"
            )
    if data["scale"] != "laptop":
        found.append(f"the committed outputs are of scale {data['scale']!r}, not laptop")
    if (data["seconds"] or 1e9) > MAX_SECONDS:
        found.append(f"{data['seconds']} s from start to ledger, more than {MAX_SECONDS}")
    if "nbval-ignore-output" not in _tags(code[holders[0]]):
        found.append("the ledger cell needs the tag nbval-ignore-output")
    last = code[holders[0] + 1] if holders[0] + 1 < len(code) else None
    expected = "".join(f"{c['id']} {c['verdict']}\n" for c in data["claims"])
    streams = [] if last is None else last.get("outputs", [])
    printed = "".join("".join(o.get("text", "")) for o in streams)
    if last is None or "nbval-check-output" not in _tags(last) or printed != expected:
        found.append("the cell after the ledger must print 'id verdict', tagged nbval-check-output")
    return found


def _files(path: Path, notebook: dict) -> list[str]:
    found = []
    top = chapters.root()
    if path.stat().st_size > MAX_BYTES:
        found.append(f"{path.stat().st_size} bytes, more than {MAX_BYTES}")
    if "papermill" in notebook["metadata"]:
        found.append("papermill metadata was committed; run make execute")
    if notebook["metadata"].get("labbook", {}).get("inputs") != chapters.inputs_hash(path):
        found.append("outputs are older than the code, claims or data; run make execute")
    if not (top / "tests" / "chapters" / f"test_{path.stem}.py").is_file():
        found.append(f"no tests/chapters/test_{path.stem}.py")
    return found
