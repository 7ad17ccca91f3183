"""Every check of the site fails on a page that is broken on purpose."""

import shutil

import browser
import pages
import pytest

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
FRAME = '<!DOCTYPE html><link rel="icon" href="data:,"><body style="margin:0"><main><article>'
WIDE = '<div style="width: 2000px">wide</div>'
GOOD = f"""
<h1 id="top">Good</h1><p>Costs $5 and $6. <a href="#top">up</a> <a href="http://a.test">out</a></p>
<span class="math"><mjx-container>x</mjx-container></span>
<code>\\( $$</code><img alt="A dot." src="data:image/png;base64,{PNG}">
<div style="overflow-x: auto">{WIDE}</div>
"""
BROKEN = {  # page, and what the browser must say of it
    "console": ("<script>console.error('no')</script>", "console: no"),
    "exception": ("<script>throw new Error('no')</script>", "script error: no"),
    "image": ('<img alt="a" src="http://other.test/a.png">', "asks for http://other.test/a.png"),
    "font": (
        "<style>@font-face { font-family: x; src: url(https://other.test/x.woff2) }"
        "</style><p style='font-family: x'>a</p>",
        "asks for https://other.test/x.woff2",
    ),
    "fetch": (
        "<script>fetch('https://other.test/').catch(() => 0)</script>",
        "asks for https://other.test/",
    ),
    "missing": ('<script src="no.js"></script>', "404"),
    "alt": (f'<img src="data:image/png;base64,{PNG}">', "no alt text"),
    "picture": ('<img alt="a" src="data:image/png;base64,AAAA">', "broken image"),
    "inline": ("<p>Now \\(x\\).</p>", "raw mathematics: \\("),
    "display": ("<p>$$x$$</p>", "raw mathematics: $$"),
    "dollar": ("<td>$10^{-5}$</td>", "raw mathematics: $10^{-5}$"),
    "untouched": ('<span class="math">x</span>', "not typeset: x"),
    "tex": (
        '<span class="math"><mjx-container><mjx-merror>bad</mjx-merror></mjx-container></span>',
        "TeX error: bad",
    ),
    "pale": ('<p style="color: #999; background: #fff">pale</p>', "contrast 2.8: pale"),
}
OVERFLOWING = {
    "page": (f"</article>{WIDE}", "page is 2000 px wide"),
    "clipped": (f'<div style="overflow-x: hidden">{WIDE}</div>', "ends at 2000 px"),
    "scrolling": (f"<style>main {{ overflow-x: auto }}</style>{WIDE}", "ends at 2000 px"),
}


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    for name, (body, _) in {"good": (GOOD, ""), **BROKEN, **OVERFLOWING}.items():
        (folder / f"{name}.html").write_text(FRAME + body)
    with browser.launch() as chromium, browser.open_site(folder, chromium) as opened:
        yield opened


def test_a_good_page_passes(visit):
    visit.open("good.html")
    assert visit.inspect() == []
    assert visit.resize(390) == []


@pytest.mark.parametrize("name", BROKEN)
def test_the_browser_sees(visit, name):
    visit.open(f"{name}.html")
    assert any(BROKEN[name][1] in line for line in visit.inspect())


@pytest.mark.parametrize("name", OVERFLOWING)
def test_what_is_too_wide_is_seen(visit, name):
    visit.open(f"{name}.html")
    for width in (1280, 390):
        assert any(OVERFLOWING[name][1] in line for line in visit.resize(width))


def test_a_dead_link_and_another_server_are_seen(tmp_path):
    (tmp_path / "one.html").write_text(
        '<h1 id="a">One</h1><a href="two.html">2</a><a href="#b">b</a><a href="one.html#a">a</a>'
    )
    assert pages.broken_links(tmp_path, pages.read(tmp_path)) == [
        "one.html: no page two.html",
        "one.html: no anchor one.html#b",
    ]
    (tmp_path / "one.html").write_text(
        '<link rel="preconnect" href="https://a.test"><script src="//b.test/x.js"></script>'
        '<script>load("https://c.test/x.js")</script><img src="x.png"><a href="http://d.test">d</a>'
    )
    (tmp_path / "x.css").write_text('@import "https://e.test/x.css"; a { background: url(x.png) }')
    found = pages.foreign(tmp_path, pages.read(tmp_path))
    assert [any(f"{x}.test" in line for line in found) for x in "abcde"] == [1, 1, 1, 0, 1]


def test_a_missing_browser_skips_or_fails(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("LABBOOK_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium"):
        browser.executable()
    monkeypatch.setenv("LABBOOK_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="LABBOOK_REQUIRE_BROWSER=1"):
        browser.executable()
