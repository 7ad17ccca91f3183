"""The rendered site: it builds without a warning, needs no other server, and reads well.

The site is built once for all tests of this file. The browser tests are skipped where there
is no Chromium, and fail there if LABBOOK_REQUIRE_BROWSER is 1. With LABBOOK_SCREENSHOTS set
to a folder, a picture of each page is written there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import browser
import bs4
import pages as site_pages
import pytest
import yaml

from labbook import chapters, ledger
from labbook import site as extension

ROOT = chapters.root()
REPOSITORY = "https://github.com/owner/name"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


def build(source: Path, out: Path) -> Path:
    """Build a book with warnings as errors; returns the folder of its pages."""
    command = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "--path-output", str(out)]
    run = subprocess.run(
        [str(command), "build", *options, str(source)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "LABBOOK_ROOT": str(source)},
    )
    wrong = [line for line in run.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    assert run.returncode == 0, "\n".join(wrong or [run.stdout[-2000:], run.stderr[-2000:]])
    return out / "_build" / "html"


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(html) -> dict[str, bs4.BeautifulSoup]:
    return site_pages.read(html)


def test_every_page_of_the_contents_is_built(pages):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"], *(e["file"] for part in toc["parts"] for e in part["chapters"])]
    # The index and the search page come with the theme; index.html leads to the first page.
    own = {"index.html", "genindex.html", "search.html"}
    assert set(pages) - own == {f"{name}.html" for name in listed}


def test_nothing_is_loaded_from_another_server(html, pages):
    assert site_pages.foreign(html, pages) == []


def test_internal_links_lead_somewhere(html, pages):
    assert site_pages.broken_links(html, pages) == []


def test_landing_page_shows_every_chapter(pages):
    page = pages["book/intro.html"]
    cards = page.select(".labbook-cards .sd-card")
    rows = page.select("table.labbook-matrix tbody tr")
    assert len(cards) == len(rows) == len(chapters.listed())
    for card, row, chapter in zip(cards, rows, chapters.listed().values()):
        notebook = chapters.read_notebook(chapter.path)
        outputs = [o for c in notebook["cells"] for o in c.get("outputs", [])]
        assert len(card.find_all("img")) == any("image/png" in o.get("data", {}) for o in outputs)
        assert card.select_one(".sd-card-text").text.strip()
        assert chapter.slug in card.find("a")["href"]
        verdicts = row.select("td:nth-child(2) .labbook-verdict")
        counted = sum(int(v.text.split()[0]) for v in verdicts)
        assert counted == len((ledger.read(chapter.path) or {"claims": []})["claims"])


def test_chapter_pages_have_download_and_folded_solutions(html, pages):
    for chapter in chapters.listed().values():
        name = chapter.path.relative_to(ROOT).with_suffix("").as_posix()
        page = pages[f"{name}.html"]
        button = page.select_one("a.btn-download-source-button")
        assert button["href"].endswith(f"_sources/{name}.ipynb")
        assert (html / "_sources" / f"{name}.ipynb").is_file()
        solutions = page.select(".admonition.solution")
        assert len(solutions) >= len(page.select(".admonition.exercise")) > 0
        assert all("dropdown" in s["class"] for s in solutions)


def repository_buttons(page: bs4.BeautifulSoup) -> set[str]:
    """Which of the buttons that need the repository's address a page has."""
    buttons = " ".join(str(b) for b in page.select(".article-header-buttons a"))
    return set(re.findall("source-repository|source-issues|colab.research|mybinder", buttons))


def test_buttons_of_the_repository_are_off_without_its_address(pages):
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    if config["sphinx"]["config"]["labbook_repository"]:
        pytest.skip("the address of the repository is set")
    assert [name for name, page in pages.items() if repository_buttons(page)] == []


def test_pages_are_rebuilt_when_a_chapter_changes(html):
    with open(html.parent / ".doctrees" / "environment.pickle", "rb") as stream:
        dependencies = pickle.load(stream).dependencies
    noted = {Path(ROOT, d).resolve() for d in dependencies["book/intro"]}
    for chapter in chapters.listed().values():
        assert chapter.path.resolve() in noted
        assert (ROOT / "book" / "data" / chapter.slug / "study.json").resolve() in noted


def test_commands_of_the_guide_exist():
    targets = re.findall("^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for page in [ROOT / "README.md", *ROOT.glob("book/**/*.md")]:
        text = page.read_text()
        assert set(re.findall("(?:`|^)make ([a-z]+)", text, re.M)) <= set(targets), page
        for module in re.findall(r"python -m (labbook\.\w+)", text):
            assert importlib.util.find_spec(module), f"{page}: {module}"


def cell(kind: str, source: str, data: dict | None = None, **metadata) -> dict:
    """A cell of a notebook, with one output where `data` is given."""
    made = {"cell_type": kind, "id": f"c{abs(hash(source))}", "source": source}
    made["metadata"] = metadata
    if kind == "code":
        output = {"output_type": "display_data", "metadata": {}, "data": data}
        made |= {"execution_count": 1, "outputs": [output] if data else []}
    return made


EXERCISE = """\
## Exercises

```{exercise}
:label: ex-demo
What is $1 + 1$?
```

```{solution} ex-demo
:class: dropdown
It is $2$.
```
"""


@pytest.fixture(scope="module")
def tiny_html(tmp_path_factory) -> Path:
    """A book of one small chapter, with the address of its repository set."""
    top = tmp_path_factory.mktemp("tiny")
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["sphinx"]["config"]["labbook_repository"] = REPOSITORY
    config["sphinx"]["config"]["html_static_path"] = [str(ROOT / "book" / "_static")]
    config["bibtex_bibfiles"] = [str(ROOT / "book" / "references.bib")]
    config["html"]["favicon"] = ""
    claim = {"id": "a", "statement": "It holds.", "source": "Table 1", "paper": "2", "unit": "s"}
    claim |= {"criterion": ">= 1", "reason": "", "ours": 2.0, "interval": [1.5, 2.5]}
    data = {"schema": 1, "chapter": "demo", "scale": "laptop"}
    data["claims"] = [{**claim, "verdict": "reproduced"}]
    study = {**data, "scale": "study", "claims": [{**claim, "verdict": "direction only"}]}
    alt = {"image": {"alt": "A dot."}}
    parameters = "scale: str = 'laptop'  # which run\nlr: float = 1.0e-3  # 1/step"
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    notebook["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook["metadata"]["language_info"] = {"name": "python"}
    notebook["cells"] = [
        cell("markdown", "# A demonstration\n\nThe promise of [it](https://a.test).\n\nMore."),
        cell("code", parameters, tags=["parameters"]),
        cell("code", "plot", {"image/png": PNG, "text/plain": "figure"}, mystnb=alt),
        cell("code", "table", {"text/markdown": "| x |\n| --- |\n| $10^{-5}$ |"}),
        cell("code", "ledger", {"text/html": ledger.to_html(data, study), ledger.MIME: data}),
        cell("markdown", EXERCISE),
    ]
    files = {
        "_config.yml": yaml.safe_dump(config),
        "_toc.yml": "format: jb-book\nroot: book/intro\nparts:\n"
        "  - caption: One\n    chapters:\n      - file: book/inference/demo\n",
        "book/intro.md": "# Tiny\n\n```{chapter-cards}\n```\n\n```{ledger-matrix}\n```\n\n"
        "```{chapter-parameters} demo\n```\n",
        "book/inference/demo.ipynb": json.dumps(notebook),
        "book/inference/demo.claims.yaml": "[]",
        "book/data/demo/study.json": json.dumps(study),
    }
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return build(top, tmp_path_factory.mktemp("tiny-site"))


@pytest.fixture(scope="module")
def tiny(tiny_html) -> dict[str, bs4.BeautifulSoup]:
    return site_pages.read(tiny_html)


def test_buttons_of_the_repository_follow_its_address(tiny):
    assert repository_buttons(tiny["book/intro.html"]) == {"source-repository", "source-issues"}
    assert len(repository_buttons(tiny["book/inference/demo.html"])) == 4
    page = str(tiny["book/inference/demo.html"])
    assert f'href="{REPOSITORY}"' in page
    assert f"{REPOSITORY}/issues/new" in page
    assert extension.REPORT in page
    colab = "https://colab.research.google.com/github/owner/name/blob/main/"
    assert f"{colab}book/inference/demo.ipynb" in page
    assert "https://mybinder.org/v2/gh/owner/name/main" in page


def test_a_card_shows_figure_title_and_promise(tiny):
    card = tiny["book/intro.html"].select_one(".sd-card")
    assert card.img["alt"] == "A dot."
    assert card.select_one(".sd-card-title").text.strip() == "A demonstration"
    assert card.select_one(".sd-card-body .sd-card-text").text.strip() == "The promise of it."


def test_the_matrix_counts_laptop_and_study(tiny):
    cells = tiny["book/intro.html"].select(".labbook-matrix tbody td")
    assert [c.text.strip() for c in cells] == [
        "A demonstration",
        "1 reproduced",
        "1 direction only",
    ]
    assert cells[1].select_one(".labbook-verdict.labbook-reproduced")


def test_parameters_are_a_table(tiny):
    rows = tiny["book/intro.html"].select(".labbook-parameters tbody tr")
    found = [[td.text.strip() for td in row.find_all("td")] for row in rows]
    assert found == [["scale", "str", "'laptop'", "which run"], ["lr", "float", "0.001", "1/step"]]


def test_outputs_have_tables_formulas_and_verdicts(tiny):
    page = tiny["book/inference/demo.html"]
    assert page.select_one(".cell_output td .math")
    assert page.select_one(".labbook-ledger .labbook-reproduced").text == "reproduced"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# Title\n\nOne line\nof promise.\n\nMore.", "One line of promise."),
        ("(label)=\n# Title\nStraight below [a link](x.md).", "Straight below a link."),
        ("# Title\n\n" + "A long first sentence. " + "And so on. " * 30, "A long first sentence."),
        ("# Title", ""),
    ],
)
def test_promise_is_the_first_paragraph(source, expected):
    assert extension.promise({"cells": [cell("markdown", source)]}) == expected


def test_switch_of_the_repository():
    for address, on in [("", False), (f"{REPOSITORY}/", True)]:
        config = SimpleNamespace(labbook_repository=address, html_theme_options={})
        extension.switch_repository(None, config)
        options = config.html_theme_options
        assert options["use_repository_button"] is options["use_issues_button"] is on
        assert bool(options["launch_buttons"]["colab_url"]) is on
        assert options["repository_url"] == address.rstrip("/")


@pytest.fixture(scope="module")
def chromium():
    with browser.launch() as running:
        yield running


@pytest.fixture(scope="module")
def visit(html, chromium):
    with browser.open_site(html, chromium) as opened:
        yield opened


def test_every_page_in_a_browser(visit, pages):
    """Mathematics, images, errors, requests, contrast and width, in light and dark."""
    shots = os.environ.get("LABBOOK_SCREENSHOTS")
    wrong = []
    for name in pages:
        if name == "index.html":  # a redirect
            continue
        visit.open(name)
        for theme in ("light", "dark"):
            visit.page.emulate_media(color_scheme=theme)
            visit.page.wait_for_selector(f"html[data-theme={theme}]", state="attached")
            found = visit.inspect()
            for width in (1280, 390):
                found += visit.resize(width)
                if shots:
                    file = f"{name.removesuffix('.html').replace('/', '-')}-{width}-{theme}.png"
                    visit.page.screenshot(path=Path(shots, file), full_page=True)
            wrong += [f"{name} ({theme}): {line}" for line in found]
    assert not wrong, "\n".join(wrong)


def test_first_address_leads_to_the_landing_page(visit):
    visit.open("index.html")
    visit.page.wait_for_url("**/book/intro.html")
    assert visit.inspect() == []


def test_search_finds_a_page(visit):
    visit.open("search.html?q=glossary")
    visit.page.wait_for_selector("#search-results li a[href*='glossary.html']")
    assert visit.inspect() == []


def test_folded_solution_opens(tiny_html, chromium):
    with browser.open_site(tiny_html, chromium) as visit:
        visit.open("book/inference/demo.html")
        assert visit.inspect() == visit.resize(390) == []
        text = visit.page.get_by_text("It is")
        assert not text.is_visible()
        visit.page.locator(".solution .toggle-button").click()
        text.wait_for(state="visible")


def test_code_can_be_copied_and_the_theme_switched(visit):
    visit.open("book/guide/running.html")
    assert visit.page.locator("button.copybtn").count() > 0
    modes = set()
    for _ in range(3):
        visit.page.locator(".theme-switch-button:visible").first.click()
        modes.add(visit.page.evaluate("document.documentElement.dataset.mode"))
    assert modes == {"auto", "light", "dark"}
