"""Faults of a built site that can be read from its files: links, anchors, other servers."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urljoin, urlparse

import bs4

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


def read(html: Path) -> dict[str, bs4.BeautifulSoup]:
    """Every page by its path in the site."""
    files = [f for f in sorted(html.rglob("*.html")) if "_static" not in f.parts]
    return {
        f.relative_to(html).as_posix(): bs4.BeautifulSoup(f.read_text(), "html.parser")
        for f in files
    }


def foreign(html: Path, pages: dict[str, bs4.BeautifulSoup]) -> list[str]:
    """What pages and style sheets load from another server."""
    wrong = []
    for name, page in pages.items():
        for tag, attribute in LOADED.items():
            for node in page.find_all(tag):
                if urlparse(node.get(attribute) or "").netloc:
                    wrong.append(f"{name}: {node}")
        for script in page.find_all("script", src=False):
            if "://" in script.text:
                wrong.append(f"{name}: {script.text[:200]}")
    for sheet in sorted(html.rglob("*.css")):
        found = re.search(r"(url\(|@import)\s*['\"]?(https?:)?//[^)]*", sheet.read_text())
        if found:
            wrong.append(f"{sheet.name}: {found.group()}")
    return wrong


def broken_links(html: Path, pages: dict[str, bs4.BeautifulSoup]) -> list[str]:
    """Links inside the site to a file or an anchor that is not there."""
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
    return wrong
