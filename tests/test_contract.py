"""Every chapter of the table of contents keeps the rules of the book."""

import pytest

from labbook import authoring, chapters, contract


@pytest.mark.parametrize("slug", list(chapters.listed()))
def test_chapter_keeps_the_contract(slug):
    assert contract.problems(chapters.find(slug).path) == []


def test_no_notebook_is_stale():
    assert [path.stem for path in authoring.stale()] == []
