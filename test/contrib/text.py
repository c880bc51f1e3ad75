"""Tokenizer."""
import numpy as np
from contrib_build import Case, op, pick

WORDS = ("a", "ab", "abc", "B", "é", "x", "xx", "1", "22", "_", " ", "  ", ",", ", ", "\n", "日本", "😀", "-", "ax", "Ab")
SEPARATORS = (" ", ",", "x", r"\s+", "x+", "[,;]", "ab|a", "é", "(?i)B", r"\d", "b$", "^a", "x*", r"\b", "日", ".x", r"a{2}", r"\.",
              "[^a-z]", "(a)(b)?")
EXPRESSIONS = ("[a-z]+", ".", r"\w+", r"\S+", "a|ab", "a*", r"\ba", r"\d+|[a-z]", "[^ ]", "é|日", r"^\w+", r"\w$", "(?i)ab", "..", r"\W+",
               "(?s).", "x?", "[[:alpha:]]{2,3}", "a??b", r"\Bx", r"\w+|[^\w\s]+")


def text(dice):
    return "".join(pick(dice, *WORDS) for _ in range(int(dice.integers(0, 7))))


@op("Tokenizer", count=40)
def tokenizer(dice):
    shape = pick(dice, (1,), (3,), (5,), (1, 1), (2, 3))
    x = np.array([text(dice) for _ in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    attributes = {"mark": pick(dice, 0, 1), "mincharnum": pick(dice, 1, 1, 2), "pad_value": pick(dice, "", "#", "pad")}
    kind = pick(dice, "characters", "separators", "expression", "both")
    if kind == "characters":
        attributes |= {"separators": [""], "mincharnum": 1}
    if kind in ("separators", "both"):
        attributes["separators"] = [pick(dice, *SEPARATORS) for _ in range(int(dice.integers(1, 4)))]
    if kind in ("expression", "both"):
        attributes["tokenexp"] = pick(dice, *EXPRESSIONS)
    return Case([x], attributes)
