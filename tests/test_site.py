"""The rendered site: it builds without a warning, needs no other server, and reads well.

The site is built once for all tests of this file. The browser tests are skipped where there
is no Chromium, and fail there if LABBOOK_REQUIRE_BROWSER is 1.
"""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urljoin, urlparse

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
import browser

from labbook import chapters, ledger

bs4 = pytest.importorskip("bs4", reason="the site's requirements are not installed")
pytest.importorskip("jupyter_book", reason="the site's requirements are not installed")
from labbook import site as extension  # noqa: E402

ROOT = chapters.root()
SHOTS = ROOT / "_build" / "screenshots"
# What a browser loads by itself; a link (<a>) may lead elsewhere.
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}


def build(source: Path, out: Path) -> Path:
    """Build a book with warnings as errors; returns the folder of its pages."""
    command = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "--path-output", str(out)]
    run = subprocess.run(
        [str(command), "build", *options, str(source)], capture_output=True, text=True, timeout=600
    )
    wrong = [line for line in run.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    assert run.returncode == 0, "\n".join(wrong or [run.stdout[-2000:], run.stderr[-2000:]])
    return out / "_build" / "html"


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(html) -> dict[str, bs4.BeautifulSoup]:
    """Every page by its path in the site."""
    files = [f for f in sorted(html.rglob("*.html")) if "_static" not in f.parts]
    return {
        f.relative_to(html).as_posix(): bs4.BeautifulSoup(f.read_text(), "html.parser")
        for f in files
    }


def test_every_page_of_the_contents_is_built(pages):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"], *(e["file"] for part in toc["parts"] for e in part["chapters"])]
    # The index and the search page come with the theme; index.html leads to the first page.
    own = {"index.html", "genindex.html", "search.html"}
    assert set(pages) - own == {f"{name}.html" for name in listed}


def test_nothing_is_loaded_from_another_server(html, pages):
    for name, page in pages.items():
        for tag, attribute in LOADED.items():
            for node in page.find_all(tag):
                if tag == "link" and not {"stylesheet", "preload", "icon"} & set(node["rel"]):
                    continue
                url = urlparse(node.get(attribute) or "")
                assert not url.netloc, f"{name}: {node}"
        for script in page.find_all("script", src=False):
            assert "://" not in script.text, f"{name}: {script.text[:200]}"
    for sheet in (html / "_static").rglob("*.css"):
        found = re.search(r"(url\(|@import)\s*['\"]?(https?:)?//[^)]*", sheet.read_text())
        assert not found, f"{sheet.name}: {found.group()}"


def test_images_have_alt_text(pages):
    for name, page in pages.items():
        for image in page.find_all("img"):
            assert (image.get("alt") or "").strip(), f"{name}: {image}"


def test_internal_links_lead_somewhere(html, pages):
    anchors = {
        name: {node.get("id") or node.get("name") for node in page.find_all(True)}
        for name, page in pages.items()
    }
    wrong = []
    for name, page in pages.items():
        for node in page.find_all("a", href=True):
            url = urlparse(urljoin(f"http://site/{name}", node["href"]))
            if url.netloc != "site":
                continue
            target, anchor = unquote(url.path.lstrip("/")), unquote(url.fragment)
            if not (html / target).is_file():
                wrong.append(f"{name}: no page {target}")
            elif anchor and target in anchors and anchor not in anchors[target]:
                wrong.append(f"{name}: no anchor {target}#{anchor}")
    assert not wrong, "\n".join(wrong)


def test_landing_page_shows_every_chapter(html, pages):
    page = pages["book/intro.html"]
    cards = page.select(".labbook-cards .sd-card")
    assert len(cards) == len(chapters.listed())
    rows = page.select("table.labbook-matrix tbody tr")
    for card, row, chapter in zip(cards, rows, chapters.listed().values()):
        notebook = chapters.read_notebook(chapter.path)
        outputs = [o for c in notebook["cells"] for o in c.get("outputs", [])]
        pictures = card.find_all("img")
        assert len(pictures) == any("image/png" in o.get("data", {}) for o in outputs)
        assert card.select_one(".sd-card-text").text.strip()
        assert chapter.slug in card.find("a")["href"]
        verdicts = row.select("td:nth-child(2) .labbook-verdict")
        counted = sum(int(v.text.split()[0]) for v in verdicts)
        assert counted == len((ledger.read(chapter.path) or {"claims": []})["claims"])


def test_chapter_pages_have_download_and_folded_solutions(html, pages):
    for chapter in chapters.listed().values():
        name = chapter.path.relative_to(ROOT).with_suffix("").as_posix()
        page = pages[f"{name}.html"]
        assert page.select_one("a.btn-download-notebook-button")
        assert (html / "_sources" / f"{name}.ipynb").is_file()
        solutions = page.select(".admonition.solution")
        assert len(solutions) >= len(page.select(".admonition.exercise")) > 0
        assert all("dropdown" in s["class"] for s in solutions)


def test_buttons_of_the_repository_are_off_without_its_address(pages):
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    if config["sphinx"]["config"]["labbook_repository"]:
        pytest.skip("the address of the repository is set")
    for name, page in pages.items():
        labels = " ".join(str(b) for b in page.select(".article-header-buttons a"))
        assert not re.search("source-repository|source-issues|colab|binder", labels, re.I), name


def test_buttons_of_the_repository_follow_its_address(tmp_path):
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["sphinx"]["config"]["labbook_repository"] = "https://github.com/owner/name"
    config["sphinx"]["config"]["html_static_path"] = [str(ROOT / "book" / "_static")]
    config["bibtex_bibfiles"], config["html"]["favicon"] = [], ""
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "p", "language": "python"}},
        "cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# One page"}],
    }
    source = tmp_path / "book"
    source.mkdir()
    (source / "_config.yml").write_text(yaml.safe_dump(config))
    (source / "_toc.yml").write_text("format: jb-book\nroot: one\n")
    (source / "one.ipynb").write_text(json.dumps(notebook))
    page = (build(source, tmp_path / "out") / "one.html").read_text()
    assert "https://github.com/owner/name/issues/new" in page
    assert extension.REPORT in page
    assert "https://colab.research.google.com/github/owner/name/blob/main/one.ipynb" in page
    assert "https://mybinder.org/v2/gh/owner/name/main" in page


def test_pages_are_rebuilt_when_a_chapter_changes(html):
    with open(html.parent / ".doctrees" / "environment.pickle", "rb") as stream:
        dependencies = pickle.load(stream).dependencies
    noted = {Path(ROOT, d).resolve() for d in dependencies["book/intro"]}
    for chapter in chapters.listed().values():
        assert chapter.path.resolve() in noted
        assert (ROOT / "book" / "data" / chapter.slug / "study.json").resolve() in noted


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
    cell = {"cell_type": "markdown", "source": source, "metadata": {}}
    assert extension.promise({"cells": [cell]}) == expected


def test_switch_of_the_repository():
    for address, on in [("", False), ("https://github.com/owner/name/", True)]:
        config = SimpleNamespace(labbook_repository=address, html_theme_options={})
        extension.switch_repository(None, config)
        options = config.html_theme_options
        assert options["use_repository_button"] is options["use_issues_button"] is on
        assert bool(options["launch_buttons"]["colab_url"]) is on
        assert options["repository_url"] == address.rstrip("/")


# In a browser, with no other server within reach.


@pytest.fixture(scope="module")
def visit(html):
    with browser.open_site(html) as opened:
        yield opened


def test_every_page_in_a_browser(visit, pages):
    """Mathematics, errors, requests and width of each page, in light and dark."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name in pages:
        if name == "index.html":  # a redirect
            continue
        for theme in ("light", "dark"):
            visit.page.emulate_media(color_scheme=theme)
            visit.page.set_viewport_size({"width": 1280, "height": 900})
            visit.open(name)
            found = visit.inspect()
            shown = visit.page.evaluate("document.documentElement.dataset.theme")
            if shown != theme:
                found.append(f"theme is {shown}")
            for width in (1280, 390):
                found += visit.resize(width)
                shot = f"{name.removesuffix('.html').replace('/', '-')}-{width}-{theme}.png"
                visit.page.screenshot(path=SHOTS / shot, full_page=True)
            wrong += [f"{name} ({theme}): {line}" for line in found]
    assert not wrong, "\n".join(wrong)


def test_first_address_leads_to_the_landing_page(visit):
    visit.open("index.html")
    visit.page.wait_for_url("**/book/intro.html")
    assert not visit.problems


def test_search_finds_a_chapter(visit, pages):
    titles = {c.slug: c.title for c in chapters.listed().values()}
    if "relaycaching" not in titles:
        pytest.skip("the chapter searched for is not in the book")
    visit.open("search.html?q=RelayCaching")
    visit.page.wait_for_selector("#search-results li a[href*='relaycaching.html']")
    assert not visit.problems


def test_folded_solution_opens(visit):
    for chapter in chapters.listed().values():
        visit.page.set_viewport_size({"width": 1280, "height": 900})
        visit.open(f"{chapter.path.relative_to(ROOT).with_suffix('.html').as_posix()}")
        solution = visit.page.locator(".admonition.solution").first
        text = solution.locator("section, .toggle-content, p:not(.admonition-title)").first
        assert not text.is_visible()
        solution.locator(".toggle-button").click()
        text.wait_for(state="visible")


def test_code_can_be_copied_and_the_theme_switched(visit):
    visit.page.set_viewport_size({"width": 1280, "height": 900})
    visit.open("book/guide/running.html")
    assert visit.page.locator("button.copybtn").count() > 0
    modes = set()
    for _ in range(3):
        visit.page.locator(".theme-switch-button:visible").first.click()
        modes.add(visit.page.evaluate("document.documentElement.dataset.mode"))
    assert modes == {"auto", "light", "dark"}
    visit.page.evaluate("localStorage.clear()")
