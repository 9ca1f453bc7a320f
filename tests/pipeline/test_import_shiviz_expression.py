"""Expressions are read as JavaScript reads them, and what is none is explained."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.errors import UnusableInputError
from thence.pipeline.importers import shiviz
from thence.pipeline.importers.shiviz_expression import compile_expression

# What users of ShiViz write, and what it must find in a text.
EXPRESSIONS: list[tuple[str, str, Any]] = [
    (r"(?<host>\S+)", "ab cd", ["ab", "cd"]),
    (r"(?P<host>\S+)", "ab", ["ab"]),
    (r"^(?<host>\w+)$", "ab\ncd\n", ["ab", "cd"]),
    (r"(?<host>.+)", "a\u2028b\nc", ["a", "b", "c"]),
    (r"(?<x>a)\k<x>", "aa", ["aa"]),
    (r"\/(?<x>\w)", "/a", ["/a"]),
    (r"[\w-.]+", "a-b.c", ["a-b.c"]),
    (r"[.-\w]+", "a-b", ["a-b"]),
    (r"[^]", "\n", ["\n"]),
    (r"[]", "a", []),
    (r"[[]x[\]]", "[x]", ["[x]"]),
    (r"[\b]", "\x08", ["\x08"]),
    (r"\é\-\i\cA\0\x41\u0042", "é-i\x01\0AB", ["é-i\x01\0AB"]),
    (r"{.*}", "{1}", ["{1}"]),
    (r"a{,2}", "a{,2} aa", ["a{,2}"]),
    (r"a{2}", "aa", ["aa"]),
    (r"(?<!x)a(?=b)(?!c)", "ab", ["a"]),
    (r"\w+", "é", []),
    (r"\d", "٣", []),
    (r" (?<x>a) ", " a ", ["a"]),
]


@pytest.mark.parametrize(("expression", "text", "expected"), EXPRESSIONS, ids=str)
def test_expressions_are_read_as_javascript(expression: str, text: str, expected: list[str]):
    assert [found[0] for found in compile_expression(expression, "it").finditer(text)] == expected


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("(?<host>a", "is no regular expression: missing )"),
        ("(?<host>a)(?<host>b)", "is no regular expression: redefinition of group name"),
        ("a\\", "is no regular expression"),
        ("[a", "is no regular expression"),
        ("(?<host>a)(?<clock>b)", "it has host, clock, no event"),
        ("a", "it has none, no host, clock, event"),
    ],
)
def test_an_expression_that_cannot_be_used_is_explained(expression: str, sentence: str):
    with pytest.raises(UnusableInputError, match=re.escape(sentence)):
        shiviz.check({"expression": expression})


@given(st.text(alphabet=r"(?<host>a)[]\-.{}^$|*+k1d", max_size=20))
def test_any_text_is_an_expression_or_a_sentence(expression: str):
    try:
        compile_expression(expression, "it")
    except UnusableInputError as error:
        assert "is no regular expression" in str(error)
