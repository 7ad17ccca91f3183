"""The rule for verdicts, the claims file, the display, the command line."""

import json

import pytest

from labbook import chapters, ledger
from labbook.errors import BookError

CLAIM = {
    "id": "gain",
    "statement": "A is faster than B & <C>.",
    "source": "Table 1",
    "paper": "4.7x",
    "unit": "ratio, over prompts",
    "criterion": ">= 2",
    "no_effect": 1,
    "reason": "Fixed beforehand.",
}


@pytest.mark.parametrize(
    ("criterion", "no_effect", "ours", "interval", "expected"),
    [
        (">= 2", 1, 2.5, (1.5, 3.0), "reproduced"),
        (">= 2", 1, 1.5, (1.2, 1.8), "direction only"),
        (">= 2", 1, 2.5, (0.9, 4.0), "not reproduced"),  # met, but no effect is not excluded
        (">= 2", 1, 0.5, (0.4, 0.6), "not reproduced"),  # excluded on the other side
        (">= 2", 1, 1.5, (1.0, 1.8), "not reproduced"),  # the bound touches no effect
        ("<= 0.1", 0.2, 0.05, (0.01, 0.15), "reproduced"),
        ("<= 0.1", 0.2, 0.15, (0.12, 0.18), "direction only"),
        ("<= 0.1", 0.2, 0.05, (0.01, 0.25), "not reproduced"),
        ("< 1", None, 0.5, (0.4, 0.9), "reproduced"),
        ("< 1", None, 0.5, (0.4, 1.0), "not reproduced"),  # without no_effect: whole interval
        ("> 0", 0, 1.0, None, "reproduced"),
        ("> 0", 0, float("nan"), (0.0, 1.0), "not reproduced"),
        ("> 0", 0, 1.0, (float("nan"), 1.0), "not reproduced"),
        ("> 0", 0, None, None, "not tested here"),
    ],
)
def test_verdict(criterion, no_effect, ours, interval, expected):
    assert ledger.verdict(criterion, no_effect, ours, interval) == expected


@pytest.mark.parametrize("text", ["2", ">= two", "== 3", "", ">=2"])
def test_criteria_must_be_readable(text):
    with pytest.raises(BookError, match="criterion"):
        ledger.parse_criterion(text)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with one chapter, `demo`, and one claim."""
    folder = tmp_path / "book" / "inference"
    folder.mkdir(parents=True)
    (folder / "demo.ipynb").write_text(json.dumps({"cells": [], "metadata": {}}))
    (folder / "demo.claims.yaml").write_text(json.dumps([CLAIM, {**CLAIM, "id": "other"}]))
    (tmp_path / "_toc.yml").write_text(
        "parts:\n  - caption: P\n    chapters:\n      - file: book/inference/demo\n"
    )
    monkeypatch.setenv("LABBOOK_ROOT", str(tmp_path))
    return tmp_path


def executed(data: dict) -> str:
    output = {"output_type": "display_data", "data": {ledger.MIME: data}, "metadata": {}}
    cell = {"cell_type": "code", "source": "", "metadata": {}, "outputs": [output]}
    return json.dumps({"cells": [cell], "metadata": {}})


def test_results_become_verdicts_html_and_json(book):
    mine = ledger.Ledger("demo")
    mine.result("gain", 2.5, (1.5, 3.0), note="It <holds>.")
    assert mine.verdicts() == {"gain": "reproduced", "other": "not tested here"}
    bundle = mine._repr_mimebundle_()
    data = bundle[ledger.MIME]
    assert data["schema"] == 1 and data["claims"][0]["ours"] == 2.5
    assert data["claims"][1]["ours"] is None
    assert "It &lt;holds&gt;." in bundle["text/html"] and "<C>" not in bundle["text/html"]
    assert "2.5 [1.5, 3]" in bundle["text/plain"]
    json.dumps(data, allow_nan=False)


def test_infinite_results_stay_valid_json(book):
    mine = ledger.Ledger("demo")
    mine.result("gain", float("inf"), (1.0, float("nan")))
    json.dumps(mine.to_json(), allow_nan=False)
    assert mine.verdicts()["gain"] == "not reproduced"


def test_unknown_claim_is_named(book):
    with pytest.raises(BookError, match="claim 'typo' is not in demo"):
        ledger.Ledger("demo").result("typo", 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a list"),
        (json.dumps([{**CLAIM, "extra": 1}]), "does not know"),
        (json.dumps([{k: v for k, v in CLAIM.items() if k != "unit"}]), "unit"),
        (json.dumps([CLAIM, CLAIM]), "share an id"),
        ("a: [", "cannot read"),
    ],
)
def test_bad_claims_files(book, text, message):
    file = book / "book" / "inference" / "demo.claims.yaml"
    file.write_text(text)
    with pytest.raises(BookError, match=message):
        ledger.read_claims(file)


def test_record_then_second_column(book, capsys, monkeypatch):
    mine = ledger.Ledger("demo")
    mine.result("gain", 3.0, (2.0, 4.0))
    data = {**mine.to_json(), "scale": "study", "seeds": [0, 1]}
    notebook = book / "run.ipynb"
    notebook.write_text(executed(data))
    assert ledger.main(["--record", str(notebook)]) == 0
    recorded = ledger.read(book / "book" / "data" / "demo" / "study.json")
    assert recorded["claims"] == data["claims"] and "--record" in recorded["written_by"]
    table = mine._repr_mimebundle_()["text/html"]
    assert "study (recorded)" in table and "3 [2, 4]" in table


def test_command_line(book, capsys):
    notebook = book / "out.ipynb"
    notebook.write_text(executed({**ledger.Ledger("demo").to_json(), "scale": "laptop"}))
    assert ledger.main([str(notebook)]) == 0
    assert "not tested here" in capsys.readouterr().out
    assert ledger.main(["--json", str(book / "out.ipynb")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["chapter"] == "demo"
    plain = book / "book" / "inference" / "demo.ipynb"
    assert ledger.main([str(plain)]) == 1
    assert "was it executed?" in capsys.readouterr().err
    assert ledger.main([str(book / "missing.ipynb")]) == 1
    (book / "bad.ipynb").write_text("{")
    assert ledger.main([str(book / "bad.ipynb")]) == 1
    assert capsys.readouterr().err.count("\n") == 2


def test_chapters_find_the_claims(book):
    assert list(chapters.listed()) == ["demo"]
