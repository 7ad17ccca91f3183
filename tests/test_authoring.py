"""A new chapter from end to end: begin, execute, check; then each rule of the contract."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from labbook import authoring, chapters, contract, ledger, skeleton
from labbook.errors import BookError

TOC = """\
# kept comment
format: jb-book
root: book/intro
parts:
  - caption: Guide
    chapters:
      - file: book/guide/reading
  - caption: Representations
    chapters:
      - file: book/representations/ssa
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book whose only chapter was just begun, and executed."""
    top = tmp_path_factory.mktemp("book")
    (top / "book").mkdir()
    (top / "_toc.yml").write_text(TOC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABBOOK_ROOT", str(top))
        authoring.new("demo", "inference", "A Demonstration")
        authoring.execute(chapters.find("demo").path)
        yield top


@pytest.fixture
def notebook(book):
    """The executed notebook; changes to it are undone after the test."""
    path = chapters.find("demo").path
    before = path.read_text()
    yield path
    path.write_text(before)


def change(path: Path, edit) -> list[str]:
    """Edit the notebook's JSON, keep its hash right, and list the rules it now breaks."""
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    data["metadata"]["labbook"] = {"inputs": chapters.inputs_hash(path)}
    path.write_text(json.dumps(data))
    return contract.problems(path)


def code(data: dict) -> list[dict]:
    return [c for c in data["cells"] if c["cell_type"] == "code"]


def test_a_new_chapter_runs_and_keeps_the_contract(book, notebook):
    assert contract.problems(notebook) == []
    assert ledger.read(notebook)["claims"][0]["verdict"] == "not tested here"
    assert authoring.stale() == []


def test_its_test_and_benchmark_pass(book):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=book, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    bench = [sys.executable, "benchmarks/bench_demo.py"]
    line = subprocess.run(bench, cwd=book, capture_output=True, text=True, check=True).stdout
    assert json.loads(line)["chapter"] == "demo"


def test_the_toc_line_is_put_in_the_parts_order(book):
    toc = (book / "_toc.yml").read_text()
    assert toc.startswith("# kept comment")
    order = [toc.index(x) for x in ("guide/reading", "Inference on", "inference/demo", "/ssa")]
    assert order == sorted(order)
    parts = list(authoring.PARTS.values())
    again = skeleton.toc_with(toc, "book/inference/second", authoring.PARTS["inference"], parts)
    assert again.index("inference/demo") < again.index("inference/second") < again.index("/ssa")
    last = skeleton.toc_with(toc, "book/agents/x", authoring.PARTS["agents"], parts)
    assert last.rstrip().endswith("- file: book/agents/x")


def test_new_refuses_bad_input_and_writes_nothing(book):
    before = sorted(p for p in book.rglob("*"))
    for slug, part, title in [
        ("demo", "inference", "T"),
        ("Bad Slug", "inference", "T"),
        ("ok", "nowhere", "T"),
        ("ok", "inference", " "),
    ]:
        with pytest.raises(BookError):
            authoring.new(slug, part, title)
    assert sorted(p for p in book.rglob("*")) == before


def test_changed_code_makes_it_stale(notebook):
    data = json.loads(notebook.read_text())
    code(data)[-1]["source"] = "1 + 1"
    notebook.write_text(json.dumps(data))
    assert authoring.stale() == [notebook]
    assert any("outputs are older" in p for p in contract.problems(notebook))


def test_a_failing_notebook_keeps_the_old_outputs(book, notebook):
    data = json.loads(notebook.read_text())
    code(data)[3]["source"] = "raise ValueError('half-way')"
    notebook.write_text(json.dumps(data))
    before = notebook.read_text()
    with pytest.raises(BookError, match=r"demo.ipynb stopped \(ValueError: half-way\)"):
        authoring.execute(notebook)
    assert notebook.read_text() == before
    failed = notebook.with_suffix(".failed.ipynb")
    assert "half-way" in failed.read_text()
    failed.unlink()


def set_source(index: int, text: str):
    return lambda data: code(data)[index].update(source=text)


def drop_heading(data: dict) -> None:
    data["cells"] = [c for c in data["cells"] if not "".join(c["source"]).startswith("## Ledger")]


def add_error(data: dict) -> None:
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}
    code(data)[4]["outputs"] = [error]


def add_warning(data: dict) -> None:
    text = {"output_type": "stream", "name": "stderr", "text": "UserWarning: x"}
    code(data)[4]["outputs"] = [text]


def forge_verdict(data: dict) -> None:
    text = json.dumps(data).replace("not tested here", "reproduced")
    data.clear()
    data.update(json.loads(text))


def second_ledger(data: dict) -> None:
    holder = next(c for c in code(data) if ledger.MIME in str(c["outputs"]))
    holder["outputs"] = holder["outputs"] * 2


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (drop_heading, "section '## ... ledger ...' is missing"),
        (lambda d: d["cells"][0].update(source="No title"), "must be markdown that starts"),
        (lambda d: code(d)[0]["metadata"].update(tags=[]), "0 cells tagged 'parameters'"),
        (set_source(0, "seed: int = 0  # s"), "must start with scale, seed"),
        (set_source(3, "x = print('hi')"), "a method cell runs code: x = print('hi')"),
        (
            set_source(3, "def f():\n    'Doc.'\n    return n_items"),
            "no method cell defines: ['n_i",
        ),
        (set_source(3, "def f():\n    return 1"), "f in a method cell has no docstring"),
        (set_source(4, "x = 1\n" * 41), "more than 40"),
        (set_source(4, "x = '" + "a" * 99 + "'"), "more than 88"),
        (set_source(2, "run = 1"), "one setup cell must call labbook.start"),
        (lambda d: code(d)[5].update(execution_count=99), "not executed in order"),
        (add_error, "ends in an error: E"),
        (add_warning, "writes to stderr"),
        (lambda d: code(d)[6]["metadata"]["mystnb"]["image"].update(alt=""), "no alt text"),
        (lambda d: code(d)[6]["metadata"]["mystnb"].pop("figure"), "no caption"),
        (lambda d: code(d)[6].update(outputs=code(d)[6]["outputs"] * 2), "it must have one"),
        (second_ledger, "2 ledger outputs"),
        (forge_verdict, "says 'reproduced', its result says 'not tested here'"),
        (lambda d: code(d)[8].update(outputs=[]), "must print 'id verdict'"),
        (lambda d: d["metadata"].update(papermill={}), "papermill metadata"),
    ],
)
def test_the_contract_finds(notebook, edit, message):
    found = change(notebook, edit)
    assert any(message in line for line in found), found


def test_the_contract_reads_the_parameter_files(book, notebook):
    file = book / "book" / "params" / "gpu" / "demo.yaml"
    before = file.read_text()
    file.write_text("scale: gpu\nn_itemz: 3\n")
    assert any("gpu sets unknown parameters ['n_itemz']" in p for p in contract.problems(notebook))
    file.unlink()
    assert any("no parameter file" in p for p in contract.problems(notebook))
    file.write_text(before)


def test_chapter_is_a_module_with_sources(book):
    method = chapters.chapter("demo")
    assert method.identity(3) == 3
    assert "def identity" in inspect.getsource(method.identity)
    assert chapters.chapter("demo") is method
    with pytest.raises(BookError, match="unknown chapter 'rqmo'; the book has: demo"):
        chapters.chapter("rqmo")


def test_parameters_are_read_from_the_cell(book, notebook):
    known = chapters.parameters(chapters.read_notebook(notebook))
    assert known["n_items"] == ("int", 64, "items in the experiment")


def test_progress_bars_are_removed_and_warnings_kept():
    bar = {"output_type": "stream", "name": "stderr", "text": "\rx:  10%|#  | 1/10\r\r     \r"}
    assert authoring._without_bars(dict(bar)) is None
    mixed = {**bar, "text": "\rx:  10%|#  | 1/10\nUserWarning: look\n"}
    assert authoring._without_bars(mixed)["text"] == "UserWarning: look\n"


def test_command_line(book, capsys):
    assert authoring.main(["check"]) == 0
    assert authoring.main(["execute-stale", "--check"]) == 0
    assert authoring.main(["execute", "nope"]) == 1
    assert "unknown chapter 'nope'" in capsys.readouterr().err
    assert authoring.main(["new", "demo", "inference", "T"]) == 1
