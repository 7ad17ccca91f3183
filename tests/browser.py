"""A headless Chromium that sees the built site and nothing else.

`open_site` serves a folder on the loopback interface and opens pages with every other
request cut. `Visit.problems` says what was wrong with a page.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Waits until the formulas are typeset, then describes what is wrong with the page.
INSPECT = r"""async () => {
  const wrong = [];
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  for (const math of document.querySelectorAll("article .math")) {
    if (!math.querySelector("mjx-container")) wrong.push("not typeset: " + math.textContent);
  }
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]")) {
    wrong.push("TeX error: " + (error.dataset.mjxError || error.textContent));
  }
  const text = document.body.cloneNode(true);
  text.querySelectorAll("pre, code, script, style").forEach((node) => node.remove());
  for (const raw of ["\\(", "\\[", "$$"]) {
    if (text.textContent.includes(raw)) wrong.push("raw mathematics left: " + raw);
  }
  for (const image of document.querySelectorAll("img")) {
    if (image.complete && image.naturalWidth === 0) wrong.push("broken image: " + image.src);
  }
  return wrong;
}"""

# The page must not scroll sideways, and nothing may be cut off at its right edge.
OVERFLOW = r"""() => {
  const wrong = [], width = window.innerWidth;
  const scroll = document.documentElement.scrollWidth;
  if (scroll > width) wrong.push(`page is ${scroll} px wide in a window of ${width} px`);
  const article = document.querySelector("article");
  for (const node of article ? article.querySelectorAll("*") : []) {
    const box = node.getBoundingClientRect();
    if (box.width === 0 || box.right <= width + 1) continue;
    if (node.closest("mjx-assistive-mml, .sd-stretched-link")) continue;
    let inside = node.parentElement, scrolls = false;
    for (; inside && inside !== article; inside = inside.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(inside).overflowX)) scrolls = true;
    }
    const own = ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
    if (!scrolls && !own) {
      wrong.push(`<${node.tagName.toLowerCase()} class="${node.className}"> ends at ${box.right}`);
      break;
    }
  }
  return wrong;
}"""


def executable() -> str:
    """Path of Chromium; skips without one, fails where LABBOOK_REQUIRE_BROWSER is 1."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        reason = "no Chromium on this machine; install one: apt-get install chromium"
        if os.environ.get("LABBOOK_REQUIRE_BROWSER") == "1":
            pytest.fail(f"LABBOOK_REQUIRE_BROWSER=1 and {reason}")
        pytest.skip(reason)
    return found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback interface; yields its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@dataclass
class Visit:
    """Pages of one site in one browser, and everything that went wrong on them."""

    address: str
    page: object
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Open a page of the site and forget what was wrong with the one before."""
        self.problems.clear()
        self.page.goto(f"{self.address}/{path}", wait_until="load")

    def inspect(self) -> list[str]:
        """What is wrong with the open page, apart from its width."""
        found = self.page.evaluate(INSPECT)
        return [*self.problems, *found]

    def resize(self, width: int) -> list[str]:
        """Set the width of the window; returns what does not fit."""
        self.page.set_viewport_size({"width": width, "height": 900})
        return self.page.evaluate(OVERFLOW)


@contextlib.contextmanager
def open_site(folder: Path) -> Iterator[Visit]:
    """A browser on the site in `folder`; requests to any other server are cut and counted."""
    chromium = executable()
    from playwright.sync_api import sync_playwright

    with serve(folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_page()
        visit = Visit(address, page)
        add = visit.problems.append

        def filter_request(route) -> None:
            url = route.request.url
            if url.startswith((address + "/", "data:", "blob:")):
                route.continue_()
            else:
                add(f"asks for {url}")
                route.abort()

        page.route("**/*", filter_request)
        page.on("console", lambda m: add(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: add(f"script error: {error}"))
        page.on("requestfailed", lambda request: add(f"failed: {request.url}"))
        page.on("response", lambda r: add(f"{r.status}: {r.url}") if r.status >= 400 else None)
        try:
            yield visit
        finally:
            browser.close()
