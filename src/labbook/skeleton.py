"""The files a new chapter begins with, made from the templates beside this module.

`labbook.authoring.new` writes them. The notebook runs from the first minute and keeps every
rule of `labbook.contract` except those that only its content can satisfy.
"""

from __future__ import annotations

import re
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates"


def files(slug: str, part: str, title: str) -> dict[str, str]:
    """Path below the root -> text, for every file of a new chapter."""
    targets = {
        f"book/{part}/{slug}.ipynb": "chapter.ipynb",
        f"book/{part}/{slug}.claims.yaml": "claims.yaml",
        f"tests/chapters/test_{slug}.py": "test_chapter.py.txt",
        f"benchmarks/bench_{slug}.py": "bench_chapter.py.txt",
    }
    for scale in ("study", "gpu", "paper"):
        targets[f"book/params/{scale}/{slug}.yaml"] = f"params_{scale}.yaml"
    return {
        target: (_TEMPLATES / template)
        .read_text(encoding="utf-8")
        .replace("__slug__", slug)
        .replace("__title__", title)
        for target, template in targets.items()
    }


def toc_with(toc: str, file: str, caption: str, order: list[str]) -> str:
    """The table of contents with one more chapter at the end of its part.

    The text is edited line by line, so that comments and order survive. A part that is not
    there yet is put in its place among the parts of the book.
    """
    lines = toc.rstrip("\n").split("\n")
    captions = {
        match.group(1).strip("\"' "): i
        for i, line in enumerate(lines)
        if (match := re.match(r"\s*- caption:\s*(.+)", line))
    }
    starts = sorted(captions.values())
    if caption in captions:
        begin = captions[caption]
        after = next((i for i in starts if i > begin), len(lines))
        entries = [i for i in range(begin, after) if re.match(r"\s*- file:", lines[i])]
        indent = re.match(r"\s*", lines[entries[-1]]).group()
        lines.insert(entries[-1] + 1, f"{indent}- file: {file}")
    else:
        later = [captions[c] for c in order[order.index(caption) + 1 :] if c in captions]
        earlier = [captions[c] for c in order[: order.index(caption)] if c in captions]
        if later:
            at = min(later)
        elif earlier:
            at = next((i for i in starts if i > max(earlier)), len(lines))
        else:
            at = len(lines)
        block = [f"  - caption: {caption}", "    chapters:", f"      - file: {file}"]
        lines[at:at] = block
    return "\n".join(lines) + "\n"
