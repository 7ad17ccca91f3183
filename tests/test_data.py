"""Questions with checkable answers: the same for a seed, balanced, and checked strictly."""

import pytest

from labbook import data


def test_the_same_seed_gives_the_same_questions():
    first, again, other = (data.tasks(s, 2) for s in (0, 0, 1))
    assert [t.question for t in first] == [t.question for t in again]
    assert [t.question for t in first] != [t.question for t in other]


def test_families_take_turns():
    families = [t.family for t in data.tasks(3, 2)]
    assert families == ["arithmetic", "knowledge", "code"] * 2


def test_a_knowledge_answer_needs_every_word_as_a_word():
    check = data._has("Paris", "Seine")
    assert check("The Seine runs through paris.")
    assert not check("Parisian cafés on the Seine")
    assert not check("Paris")


def test_a_number_is_found_with_a_thousands_comma_and_not_inside_another():
    check = data._has("1200")
    assert check("That makes 1,200 seats.")
    assert not check("That makes 11200 seats.")


def test_code_must_parse_and_define_the_function():
    check = data._defines("twice")
    assert check("```python\ndef twice(x):\n    return 2 * x\n```\nIt doubles.")
    assert not check("```python\ndef twice(x) return\n```")
    assert not check("```python\ndef thrice(x):\n    return 3 * x\n```")


@pytest.mark.parametrize("count", [0, 99])
def test_an_impossible_count_names_what_is_allowed(count):
    with pytest.raises(ValueError, match="per_family = .* between 1 and"):
        data.tasks(0, count)
