"""Readers and generators of data: records and tensors with documented shapes.

Belongs here: what turns a pinned asset or a seed into the items that a chapter works on.
Not here: what a chapter measures on them.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A question with an answer that a program can check."""

    family: str
    question: str
    check: Callable[[str], bool]  # whether a text contains the right answer


def tasks(seed: int | str, per_family: int) -> list[Task]:
    """Arithmetic, knowledge and code questions, `per_family` different ones of each.

    The families take turns, so that a prefix of the list is balanced. The same seed gives
    the same questions everywhere.
    """
    limit = min(len(_FACTS), len(_CODE))
    if not 1 <= per_family <= limit:
        raise ValueError(f"per_family = {per_family}; must lie between 1 and {limit}")
    rng = random.Random(f"tasks-{seed}")
    families = {
        "arithmetic": [_arithmetic(rng) for _ in range(per_family)],
        "knowledge": [
            (f"{q} Explain in detail.", _has(*words)) for q, words in rng.sample(_FACTS, per_family)
        ],
        "code": [
            (
                f"Write a Python function {name} that {what}. Then explain how it works.",
                _defines(name),
            )
            for name, what in rng.sample(_CODE, per_family)
        ],
    }
    columns = [[Task(family, q, check) for q, check in items] for family, items in families.items()]
    return [task for row in zip(*columns) for task in row]


def _has(*words: str) -> Callable[[str], bool]:
    """Each word occurs in the text, as a whole word, in any case; 1,200 counts as 1200."""
    patterns = [re.compile(rf"(?<![\w.]){re.escape(w)}(?!\w)", re.IGNORECASE) for w in words]

    def check(text: str) -> bool:
        plain = re.sub(r"(?<=\d),(?=\d)", "", text)
        return all(pattern.search(plain) for pattern in patterns)

    return check


def _defines(name: str) -> Callable[[str], bool]:
    """Some code block of the text parses as Python and defines the function (never run)."""

    def check(text: str) -> bool:
        for block in re.findall(r"```(?:python)?\n(.*?)(?:```|\Z)", text, re.DOTALL) or [text]:
            try:
                tree = ast.parse(block)
            except SyntaxError:
                continue
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            if name in names:
                return True
        return False

    return check


def _arithmetic(rng: random.Random) -> tuple[str, Callable[[str], bool]]:
    a, b, c = rng.randint(6, 19), rng.randint(3, 9), rng.randint(4, 30)
    who = rng.choice(["Mira", "Tom", "Aisha", "Jonas"])
    question, answer = rng.choice(
        [
            (f"{who} buys {a} boxes of {b} pens and gets {c} pens free. How many pens?", a * b + c),
            (f"{who} walks {a} km a day for {b} days, then {c} km more. How many km?", a * b + c),
            (f"A farm has {a} cows and {c} hens. How many legs is that?", 4 * a + 2 * c),
            (
                f"A train with {b} coaches of {c} seats runs {a} times. How many seats in all?",
                a * b * c,
            ),
            (
                f"{who} packs {a * b} apples in bags of {b}, at {c} coins a bag. How many coins?",
                a * c,
            ),
        ]
    )
    return f"{question} Show each step and say why you take it.", _has(str(answer))


_FACTS = [
    ("Which gas do plants take in for photosynthesis, and which do they give off?", ("oxygen",)),
    ("Why does the moon have phases, and whose light does it reflect?", ("sun",)),
    ("Which planet is called the red planet, and why is it red?", ("Mars",)),
    ("What is the capital of France, and which river runs through it?", ("Paris", "Seine")),
    ("Why does ice float on water? Use the word density.", ("density",)),
    ("Which organ pumps blood through the body, and how is it built?", ("heart",)),
    ("What does a thermometer measure, and how does one with a liquid work?", ("temperature",)),
    ("Who wrote Romeo and Juliet, and what is the play about?", ("Shakespeare",)),
    ("What is the largest ocean on Earth, and why does it matter?", ("Pacific",)),
    ("What causes the tides of the sea, and how often do they come?", ("moon",)),
]
_CODE = [
    ("add_squares", "returns the sum of the squares of the numbers in a list"),
    ("count_vowels", "counts the vowels in a string"),
    ("is_palindrome", "tells whether a string reads the same backwards, ignoring case"),
    ("running_mean", "returns the means of all prefixes of a list of numbers"),
    ("unique_words", "returns the sorted unique words of a text"),
    ("to_celsius", "converts a temperature from Fahrenheit to Celsius"),
    ("longest_word", "returns the longest word of a sentence"),
    ("factorial", "computes the factorial of a non-negative integer"),
]
