"""Claims, results and verdicts: what a paper says, what the run found, what follows.

Belongs here: the claims file, the rule for a verdict, the ledger's display and its JSON.
Not here: how a chapter computes a result.

A claim is a mapping with these keys (``<slug>.claims.yaml`` is a list of them)::

    id          short name, unique in the chapter
    statement   what the paper claims, in one sentence
    source      where it says so (section, figure, table)
    paper       the paper's figure, as text
    unit        unit of the result and what the interval is taken over
    criterion   ">= X", "> X", "<= X" or "< X": what counts as reproduced, fixed beforehand
    no_effect   the value that means "no effect" (0 for a difference, 1 for a ratio), or null
    reason      why the claim is tested so, or why it is not tested

Command line: ``python -m labbook.ledger [--json] [--record] PATH...`` compares executed
notebooks (or recorded ledgers) with the papers.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import operator
import os
import sys
from pathlib import Path

from labbook.errors import BookError

MIME = "application/vnd.labbook.ledger+json"
VERDICTS = ("reproduced", "direction only", "not reproduced", "not tested here")
KEYS = ("id", "statement", "source", "paper", "unit", "criterion", "no_effect", "reason")
_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def parse_criterion(text: str) -> tuple[str, float]:
    """``">= 0.3"`` -> (``">="``, 0.3)."""
    sign, _, number = str(text).strip().partition(" ")
    try:
        if sign not in _OPERATORS:
            raise ValueError(sign)
        return sign, float(number)
    except ValueError:
        raise BookError(f"criterion {text!r}; write one of >=, >, <=, < and a number") from None


def verdict(
    criterion: str,
    no_effect: float | None,
    ours: float | None,
    interval: tuple[float, float] | None,
) -> str:
    """The verdict on one claim.

    ``reproduced``: the criterion is met and the 95 % interval excludes `no_effect`.
    ``direction only``: the interval excludes it on the paper's side, the criterion is missed.
    ``not reproduced``: anything else. Without a result: ``not tested here``. Where no value
    means "no effect" (`no_effect` None), the whole interval must meet the criterion.
    """
    if ours is None:
        return "not tested here"
    sign, bound = parse_criterion(criterion)
    low, high = interval if interval is not None else (ours, ours)
    if not all(math.isfinite(v) for v in (ours, low, high)):
        return "not reproduced"
    meets = _OPERATORS[sign]
    if no_effect is None:
        return "reproduced" if meets(low, bound) and meets(high, bound) else "not reproduced"
    excluded = low > no_effect if sign[0] == ">" else high < no_effect
    if not excluded:
        return "not reproduced"
    return "reproduced" if meets(ours, bound) else "direction only"


def read_claims(path: Path) -> list[dict]:
    """The claims of a chapter, checked: keys, unique ids, readable criteria."""
    import yaml

    try:
        claims = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BookError(f"cannot read the claims file {path}: {error}") from error
    if not isinstance(claims, list) or not claims:
        raise BookError(f"{path} must be a list of claims")
    for claim in claims:
        wrong = set(KEYS) ^ set(claim)
        if wrong:
            raise BookError(
                f"{path}: claim {claim.get('id')!r} lacks or does not know {sorted(wrong)}"
            )
        parse_criterion(claim["criterion"])
    ids = [c["id"] for c in claims]
    if len(set(ids)) != len(ids):
        raise BookError(f"{path}: two claims share an id: {sorted(ids)}")
    return claims


class Ledger:
    """The claims of a chapter and the results of this run.

    Parameters
    ----------
    slug : str
        The chapter; its claims file lies beside its notebook.
    run : labbook.runtime.Run, optional
        From ``labbook.start``: scale, seeds, device, time and memory go into the JSON.
    """

    def __init__(self, slug: str, run=None):
        from labbook import chapters

        self.slug, self.run = slug, run
        self.claims = read_claims(chapters.find(slug).path.with_suffix(".claims.yaml"))
        self.results: dict[str, tuple[float, tuple[float, float] | None]] = {}
        self.notes: dict[str, str] = {}

    def result(
        self, id: str, ours: float, interval: tuple[float, float] | None = None, note: str = ""
    ) -> None:
        """Record the result of one claim with its 95 % interval over the unit it names.

        `note` replaces the claim's reason in the display: what explains this outcome.
        """
        if id not in {c["id"] for c in self.claims}:
            raise BookError(f"claim {id!r} is not in {self.slug}.claims.yaml")
        pair = None if interval is None else (float(interval[0]), float(interval[1]))
        self.results[id] = (float(ours), pair)
        self.notes[id] = note

    def verdicts(self) -> dict[str, str]:
        """Verdict of each claim, in the order of the claims file."""
        out = {}
        for claim in self.claims:
            ours, interval = self.results.get(claim["id"], (None, None))
            out[claim["id"]] = verdict(claim["criterion"], claim["no_effect"], ours, interval)
        return out

    def to_json(self) -> dict:
        """The ledger as plain data, schema 1."""
        from labbook import assets

        run, verdicts = self.run, self.verdicts()
        claims = []
        for claim in self.claims:
            ours, interval = self.results.get(claim["id"], (None, None))
            claims.append(
                {
                    "id": claim["id"],
                    "statement": claim["statement"],
                    "source": claim["source"],
                    "paper": claim["paper"],
                    "ours": _finite(ours),
                    "interval": None if interval is None else [_finite(v) for v in interval],
                    "unit": claim["unit"],
                    "criterion": claim["criterion"],
                    "verdict": verdicts[claim["id"]],
                    "reason": self.notes.get(claim["id"]) or claim["reason"],
                }
            )
        return {
            "schema": 1,
            "chapter": self.slug,
            "scale": run.scale if run else None,
            "seeds": run.seeds if run else [],
            "seconds": round(run.seconds(), 1) if run else None,
            "peak_memory_bytes": run.peak_memory_bytes() if run else None,
            "device": str(run.device) if run else None,
            "versions": {**(run.versions if run else {}), **assets.used()},
            "claims": claims,
        }

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        data = self.to_json()
        table = to_html(data, recorded(self.slug, "study"))
        return {MIME: data, "text/html": table, "text/plain": to_text(data)}


def _finite(value: float | None) -> float | None:
    """Four significant digits are what a ledger can say; JSON has no infinities."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}")


def recorded(slug: str, scale: str) -> dict | None:
    """The committed ledger of the chapter's run at that scale, where there is one."""
    from labbook import chapters

    file = chapters.root() / "book" / "data" / slug / f"{scale}.json"
    return read(file) if file.is_file() else None


def read(path: Path) -> dict | None:
    """The ledger in an executed notebook or a recorded JSON file; None where it has none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BookError(f"cannot read {path}: {error}") from error
    if isinstance(data, dict) and data.get("schema") == 1 and "claims" in data:
        return data
    if not isinstance(data, dict) or "cells" not in data:
        return None
    for cell in data["cells"]:
        for output in cell.get("outputs", []):
            found = output.get("data", {}).get(MIME)
            if found is not None:
                return json.loads("".join(found)) if isinstance(found, (str, list)) else found
    return None


def shown(value: float | None, interval: list | None = None) -> str:
    """``0.412 [0.31, 0.52]`` with three significant digits."""
    if value is None:
        return "–"
    text = f"{value:.3g}"
    if interval and None not in interval:
        text += f" [{interval[0]:.3g}, {interval[1]:.3g}]"
    return text


def css_class(verdict: str) -> str:
    """Classes by which the site's style sheet colours a verdict."""
    return "labbook-verdict labbook-" + verdict.replace(" ", "-")


def to_html(data: dict, study: dict | None = None) -> str:
    """The ledger as a table; with the recorded `study` run as a last column."""
    heads = ["claim", "paper", "criterion", f"this run ({data['scale'] or 'no scale'})"]
    if study:
        heads.append("study (recorded)")
    second = {c["id"]: c for c in (study or {}).get("claims", [])}
    rows = []
    for claim in data["claims"]:
        cells = [
            f"<b>{html.escape(claim['id'])}</b> {html.escape(claim['statement'])}<br>"
            f"<small>{html.escape(claim['source'])}. {html.escape(claim['reason'] or '')}<br>"
            f"Result: {html.escape(claim['unit'])}.</small>",
            html.escape(str(claim["paper"])),
            html.escape(claim["criterion"]),
            _outcome(claim),
        ]
        if study:
            cells.append(_outcome(second[claim["id"]]) if claim["id"] in second else "–")
        rows.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    head = "".join(f"<th>{html.escape(h)}</th>" for h in heads)
    body = "".join(rows)
    return (
        '<div class="labbook-ledger"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _outcome(claim: dict) -> str:
    """A result and its verdict, one below the other."""
    value = html.escape(shown(claim["ours"], claim["interval"]))
    return f'{value}<br><b class="{css_class(claim["verdict"])}">{claim["verdict"]}</b>'


def to_text(data: dict) -> str:
    """The ledger as plain text, one block of columns."""
    lines = [
        f"{data['chapter']} at scale {data['scale']}, seeds {data['seeds']}, {data['seconds']} s"
    ]
    for claim in data["claims"]:
        lines.append(
            f"  {claim['id']:<22} paper {claim['paper']!s:<18} "
            f"ours {shown(claim['ours'], claim['interval']):<28} "
            f"{claim['criterion']:<9} {claim['verdict']}"
        )
    return "\n".join(lines)


def record(data: dict, source: Path) -> Path:
    """Commit-ready copy of a run's ledger: ``book/data/<chapter>/<scale>.json``."""
    from labbook import chapters

    folder = chapters.root() / "book" / "data" / data["chapter"]
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{data['scale']}.json"
    command = f"python -m labbook.ledger --record {source}"
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps({**data, "written_by": command}, indent=1) + "\n")
    os.replace(temporary, out)
    return out


def main(arguments: list[str]) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m labbook.ledger", description="Ledgers of executed notebooks."
    )
    parser.add_argument("paths", nargs="+", type=Path, help="notebooks, recorded JSON, folders")
    parser.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    parser.add_argument(
        "--record", action="store_true", help="write book/data/<chapter>/<scale>.json"
    )
    options = parser.parse_args(arguments)
    try:
        files: list[Path] = []
        for path in options.paths:
            files += sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        files = [f for f in files if ".failed" not in f.name]
        ledgers = [(f, read(f)) for f in files]
        if not any(data for _, data in ledgers):
            raise BookError(f"no ledger in {', '.join(map(str, options.paths))}; was it executed?")
        if options.record:
            for file, data in ledgers:
                if data:
                    print(record(data, file))
        elif options.json:
            print(json.dumps([data for _, data in ledgers if data], indent=1))
        else:
            for file, data in ledgers:
                print(f"{file}\n{to_text(data)}" if data else f"{file}: no ledger")
    except BookError as error:
        print(f"labbook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    from labbook import ledger

    sys.exit(ledger.main(sys.argv[1:]))
