"""A Sphinx extension: what the pages of the book show about its chapters.

Belongs here: the directives ``chapter-cards``, ``ledger-matrix``, ``asset-table`` and
``chapter-parameters``, and the setting ``labbook_repository``.
Not here: what the chapters and ledgers are (see `chapters` and `ledger`).
"""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from labbook import __version__, assets, chapters, ledger

COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"
REPORT = "Report an error in this reproduction"


class BookDirective(SphinxDirective):
    """A directive that reads the chapters; its page is rebuilt when one of them changes."""

    def listed(self) -> list[chapters.Chapter]:
        """The chapters, each noted as something this page depends on."""
        self.env.note_dependency(str(chapters.root() / "_toc.yml"))
        found = list(chapters.listed().values())
        for chapter in found:
            self.env.note_dependency(str(chapter.path))
        return found

    def docname(self, chapter: chapters.Chapter) -> str:
        """The page of a chapter, as Sphinx names it."""
        return chapter.path.relative_to(chapters.root()).with_suffix("").as_posix()

    def link(self, chapter: chapters.Chapter) -> nodes.paragraph:
        """The chapter's title, linked to its page."""
        target = addnodes.pending_xref(
            "",
            nodes.inline("", chapter.title),
            refdomain="std",
            reftype="doc",
            reftarget="/" + self.docname(chapter),
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )
        return nodes.paragraph("", "", target)


class ChapterCards(BookDirective):
    """A card for each chapter: its first figure, its title, what it promises."""

    def run(self) -> list[nodes.Node]:
        if not self.listed():
            return [nodes.paragraph("", "There is no chapter yet.")]
        lines = ["::::::{grid} 1 2 2 2", ":gutter: 3", ""]
        for chapter in self.listed():
            notebook = chapters.read_notebook(chapter.path)
            lines += [f":::::{{grid-item-card}} {chapter.title}"]
            lines += [f":link: /{self.docname(chapter)}", ":link-type: doc"]
            picture = self.picture(chapter, notebook)
            if picture:
                lines += [f":img-top: {picture[0]}", f":img-alt: {picture[1]}"]
            lines += ["", promise(notebook), ":::::", ""]
        lines += ["::::::"]
        box = nodes.container(classes=["labbook-cards"])
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, box)
        return [box]

    def picture(self, chapter: chapters.Chapter, notebook: dict) -> tuple[str, str] | None:
        """The chapter's first PNG, written beside the site: (path for Sphinx, alt text)."""
        for cell in notebook["cells"]:
            for output in cell.get("outputs", []):
                png = output.get("data", {}).get("image/png")
                if png:
                    folder = Path(self.env.app.doctreedir).parent / "labbook_cards"
                    folder.mkdir(parents=True, exist_ok=True)
                    file = folder / f"card-{chapter.slug}.png"
                    data = base64.b64decode(png if isinstance(png, str) else "".join(png))
                    if not file.is_file() or file.read_bytes() != data:
                        file.write_bytes(data)
                    settings = cell["metadata"].get("mystnb", {}).get("image", {})
                    alt = settings.get("alt") or f"The first figure of {chapter.title}"
                    return "/" + os.path.relpath(file, self.env.srcdir), " ".join(alt.split())
        return None


def promise(notebook: dict) -> str:
    """First paragraph below the notebook's title; its first sentence where it is long."""
    first = next((c for c in notebook["cells"] if c["cell_type"] == "markdown"), None)
    below = re.split(r"^# .*$", chapters.source(first) if first else "", maxsplit=1, flags=re.M)
    text = " ".join(re.split(r"\n\s*\n", below[-1].strip())[0].split())
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links are relative to its page
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text, maxsplit=1)[0]
    return text if len(text) <= 180 else sentence


class LedgerMatrix(BookDirective):
    """A row for each chapter: how many of its claims got which verdict, at which scale."""

    def run(self) -> list[nodes.Node]:
        rows, studied = [], False
        for chapter in self.listed():
            file = chapters.root() / "book" / "data" / chapter.slug / "study.json"
            self.env.note_dependency(str(file))  # also when it is not there yet
            study = ledger.read(file) if file.is_file() else None
            studied = studied or study is not None
            rows.append([self.link(chapter), verdicts(ledger.read(chapter.path)), verdicts(study)])
        if not rows:
            return [nodes.paragraph("", "There is no chapter yet.")]
        keep = 3 if studied else 2
        heads = ["Chapter", "Laptop", "Study"][:keep]
        return [table(heads, [row[:keep] for row in rows], [4, 3, 3][:keep], "labbook-matrix")]


def verdicts(data: dict | None) -> nodes.paragraph:
    """Counts of the verdicts in a ledger, such as "3 reproduced"; a dash where it has none."""
    counts = Counter(claim["verdict"] for claim in (data or {}).get("claims", []))
    found = nodes.paragraph()
    for verdict in ledger.VERDICTS:
        if counts[verdict]:
            label = f"{counts[verdict]} {verdict}"
            classes = ledger.css_class(verdict).split()
            found += [nodes.inline("", label, classes=classes), nodes.Text(" ")]
    return found if counts else nodes.paragraph("", "–")


class AssetTable(SphinxDirective):
    """Where real weights and data come from: the table of `labbook.assets`."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(assets.__file__)
        rows = []
        for name, asset in assets.TABLE.items():
            size = f"{asset.archive_bytes / 1e6:.0f} MB"
            archive = [code(f"{asset.package}=={asset.version}"), nodes.Text(f", {size}, sha256 ")]
            digest = code(asset.sha256)
            digest["classes"].append("labbook-hash")
            what = nodes.paragraph("", "", code(name), nodes.Text(f": {asset.what}."))
            rows.append(
                [
                    what,
                    nodes.paragraph("", "", *archive, digest),
                    nodes.paragraph("", asset.licence),
                    nodes.paragraph("", "", code(asset.hub)) if asset.hub else nodes.paragraph(),
                ]
            )
        heads = ["Asset", "Pinned archive", "Licence", "Hub id"]
        return [table(heads, rows, [5, 4, 2, 3], "labbook-assets")]


class ChapterParameters(BookDirective):
    """The parameters cell of the chapter named, as a table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        chapter = chapters.find(self.arguments[0])
        self.env.note_dependency(str(chapter.path))
        known = chapters.parameters(chapters.read_notebook(chapter.path))
        rows = [
            [*(nodes.paragraph("", "", code(text)) for text in (name, kind, repr(default))),
             nodes.paragraph("", comment)]
            for name, (kind, default, comment) in known.items()
        ]  # fmt: skip
        heads = ["Parameter", "Type", "Default", "Meaning"]
        return [table(heads, rows, [2, 1, 2, 5], "labbook-parameters")]


def code(text: str) -> nodes.literal:
    """Inline code."""
    return nodes.literal("", text)


def table(heads: list[str], rows: list[list[nodes.Node]], widths: list[int], name: str):
    """A docutils table whose cells are the given nodes."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in widths), cols=len(heads))

    def row(cells: list[nodes.Node]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", cell) for cell in cells))

    group += nodes.thead("", row([nodes.paragraph("", head) for head in heads]))
    group += nodes.tbody("", *(row(cells) for cells in rows))
    return nodes.table("", group, classes=[name])


def switch_repository(app: Sphinx, config: Config) -> None:
    """Turn on what needs the repository's address, where ``labbook_repository`` names it."""
    address = config.labbook_repository.rstrip("/")
    options = config.html_theme_options
    options["repository_url"] = address
    options["use_repository_button"] = options["use_issues_button"] = bool(address)
    buttons = options.setdefault("launch_buttons", {})
    buttons["colab_url"] = COLAB if address.startswith("https://github.com/") else ""
    buttons["binderhub_url"] = BINDER if address else ""


def name_report_link(app: Sphinx, pagename: str, template: str, context: dict, doctree) -> None:
    """Say on the issue button what it is for."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("label") == "source-issues-button":
                button["text"] = button["tooltip"] = REPORT


def style(config: Config) -> str:
    """The style sheets; as a setting, so that pages are written again when one changes."""
    return "".join(f.read_text() for f in sorted((chapters.root() / "book/_static").glob("*.css")))


def setup(app: Sphinx) -> dict:
    """Register the directives and the setting."""
    app.add_config_value("labbook_repository", "", "html", [str])
    app.add_config_value("labbook_style", style, "html", [str])
    app.add_directive("chapter-cards", ChapterCards)
    app.add_directive("ledger-matrix", LedgerMatrix)
    app.add_directive("asset-table", AssetTable)
    app.add_directive("chapter-parameters", ChapterParameters)
    app.connect("config-inited", switch_repository, priority=900)
    app.connect("html-page-context", name_report_link, priority=502)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
