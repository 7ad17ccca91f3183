"""A headless Chromium that sees the built site and nothing else.

`launch` starts it; `open_site` serves a folder on the loopback interface and cuts every other
request. `Visit.open` opens a page, `Visit.inspect` and `Visit.resize` say what is wrong with it.
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
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Waits until formulas and images are there, then lists what is wrong with the page.
INSPECT = r"""async () => {
  const wrong = [];
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  for (const math of document.querySelectorAll(".math")) {
    if (!math.querySelector("mjx-container")) wrong.push("not typeset: " + math.textContent);
  }
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]")) {
    wrong.push("TeX error: " + (error.dataset.mjxError || error.textContent));
  }
  const text = document.body.cloneNode(true);
  text.querySelectorAll("pre, code, script, style, mjx-container").forEach((x) => x.remove());
  const raw = text.textContent.match(/\\[(\[]|\$\$|\$[^$\n]*[\\^_][^$\n]*\$/);
  if (raw) wrong.push("raw mathematics: " + raw[0]);

  for (const image of document.images) {
    if (!image.alt.trim()) wrong.push("no alt text: " + image.src.slice(0, 80));
    await image.decode().catch(() => wrong.push("broken image: " + image.src.slice(0, 80)));
  }

  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const over = (behind, [r, g, b, alpha = 1]) =>
    behind.map((v, i) => (1 - alpha) * v + alpha * [r, g, b][i]);
  const background = (node) =>  // the colours behind a node, one over the other
    node ? over(background(node.parentElement), numbers(getComputedStyle(node).backgroundColor))
      : [255, 255, 255];
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = "article :is(p, td, th, dt, small, figcaption span, .labbook-verdict)";
  for (const node of document.querySelectorAll(texts)) {
    if (!node.textContent.trim()) continue;
    const behind = background(node);
    const pair = [behind, over(behind, numbers(getComputedStyle(node).color))].map(luminance);
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < 4.5) {
      wrong.push(`contrast ${contrast.toFixed(1)}: ` + node.textContent.slice(0, 60));
    }
  }
  return wrong;
}"""

# The page must not scroll sideways, and in the article only a box of its own may.
OVERFLOW = r"""() => {
  const wrong = [], width = document.documentElement.clientWidth;
  const scroll = document.documentElement.scrollWidth;
  if (scroll > width) wrong.push(`page is ${scroll} px wide in a window of ${width} px`);
  const article = document.querySelector("article");
  const edge = article ? Math.min(width, article.parentElement.getBoundingClientRect().right) : 0;
  for (const node of article ? article.querySelectorAll("*") : []) {
    const box = node.getBoundingClientRect();
    if (box.width === 0 || box.right <= edge + 1 || node.closest("mjx-assistive-mml")) continue;
    let scrolls = false;
    for (let outer = node; outer !== article; outer = outer.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(outer).overflowX)) scrolls = true;
    }
    if (scrolls) continue;
    const what = `<${node.tagName.toLowerCase()}> ${node.textContent.trim().slice(0, 40)}`;
    wrong.push(`ends at ${box.right} px, the column at ${edge} px: ${what}`);
    break;
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
    """The open page of a site, and what went wrong while it was loaded."""

    address: str
    browser: object
    page: object = None
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Open a page of the site in a fresh profile, in place of the one before."""
        self.close()
        self.problems = []
        add = self.problems.append
        size = {"width": 1280, "height": 900}
        context = self.browser.new_context(service_workers="block", viewport=size)
        context.route("**/*", functools.partial(self._filter, add))
        self.page = context.new_page()
        self.page.on("console", lambda m: add(f"console: {m.text}") if m.type == "error" else None)
        self.page.on("pageerror", lambda error: add(f"script error: {error}"))
        self.page.on("response", lambda r: add(f"{r.status}: {r.url}") if r.status >= 400 else None)
        self.page.goto(f"{self.address}/{path}", wait_until="networkidle")

    def _filter(self, add, route) -> None:
        if route.request.url.startswith((self.address + "/", "data:", "blob:")):
            route.continue_()
        else:
            add(f"asks for {route.request.url}")
            route.abort()

    def close(self) -> None:
        """Close the open page."""
        if self.page:
            self.page.context.close()
            self.page = None

    def inspect(self) -> list[str]:
        """What is wrong with the open page, apart from its width."""
        found = self.page.evaluate(INSPECT)
        return [*self.problems, *found]

    def resize(self, width: int) -> list[str]:
        """Set the width of the window; returns what does not fit."""
        self.page.set_viewport_size({"width": width, "height": 900})
        return self.page.evaluate(OVERFLOW)


@contextlib.contextmanager
def launch() -> Iterator[object]:
    """A headless Chromium with an empty profile."""
    chromium = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def open_site(folder: Path, browser: object) -> Iterator[Visit]:
    """The site in `folder`; requests to any other server are cut and counted."""
    with serve(folder) as address:
        visit = Visit(address, browser)
        try:
            yield visit
        finally:
            visit.close()
