"""One look for all figures and tables: sizes, colours by method, light and dark pages.

Belongs here: the style, and the colour of every method that more than one figure shows.
Not here: the drawing of a particular figure.
"""

from __future__ import annotations

from contextlib import contextmanager

import matplotlib as mpl
import matplotlib.pyplot as plt

# Okabe-Ito: distinguishable with the common colour vision deficiencies and in print.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#7F7F7F"

# The colour of a method in the whole book. The chapter's own method is always VERMILION.
COLOURS = {
    "full prefill": BLACK,
    "prefix caching": GREY,
    "naive reuse": YELLOW,
    "naive reuse, not re-rotated": PURPLE,
    "CacheBlend": BLUE,
    "EPIC": GREEN,
    "random": SKY,
    "oracle": ORANGE,
    "RelayCaching": VERMILION,
}

WIDTH = 7.0  # inches: the text column of the page at 100 dpi


def use_style() -> None:
    """Set matplotlib's defaults for the book; call it once, after `labbook.start`.

    The background is opaque and nearly white, so that a figure reads the same on a dark page.
    """
    mpl.rcParams.update(
        {
            "figure.figsize": (WIDTH, 3.4),
            "figure.dpi": 100,
            "savefig.dpi": 100,
            "figure.facecolor": "#FCFCFC",
            "savefig.facecolor": "#FCFCFC",
            "axes.facecolor": "#FCFCFC",
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#E3E3E3",
            "axes.axisbelow": True,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "lines.linewidth": 1.8,
            "axes.prop_cycle": mpl.cycler(
                color=[VERMILION, BLUE, GREEN, ORANGE, SKY, PURPLE, GREY, BLACK]
            ),
        }
    )


@contextmanager
def figure(rows: int = 1, columns: int = 1, height: float = 3.4, **options):
    """``with figure(1, 2) as (fig, axes): ...`` shows the figure once and closes it."""
    fig, axes = plt.subplots(rows, columns, figsize=(WIDTH, height), **options)
    yield fig, axes
    plt.show()
    plt.close(fig)


def colour(method: str) -> str:
    """Colour of a method; ``"CacheBlend 15 %"`` takes that of ``"CacheBlend"``."""
    fits = [name for name in COLOURS if method.startswith(name)]
    return COLOURS[max(fits, key=len)] if fits else GREY


def table(header: list[str], rows: list[list[object]], caption: str = ""):
    """A Markdown table for the end of a cell; floats get three significant digits."""
    from IPython.display import Markdown

    def text(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = [header, ["---"] * len(header), *rows]
    body = "\n".join("| " + " | ".join(map(text, line)) + " |" for line in lines)
    return Markdown(f"{body}\n\n{caption}".strip())
