"""Generates replies about classes, places and values, from a seed, in our own words.

The official scripts read them once, and their readings are recorded in official_readings.json; the hypothesis tests
use the same sentences with other words in them.
"""

import random
from collections.abc import Sequence

from medtune.benchmarks.u2_bench.tasks_and_sets import OPTIONS_SEEN
from medtune.data.media.masks import LOCATIONS

CLASS_SETS = ("03", "18", "23", "28_class", "40", "42", "44", "50", "53", "57", "69", "74is_normal", "75", "anatomy")
VALUE_SETS = ("18", "27", "50", "57")
REFUSALS = (
    "", " ", "\n", "I cannot tell.", "Sorry, there is nothing to be seen here.",
    "As a language model I do not read scans.", "N/A", "none", "None", "nan", "null", "no idea", "failed", " Failed\n",
)  # fmt: skip
AROUND = (
    "{}", " {}", "{}\n", "{}.", "{} ", "{},", "({})", "'{}'", '"{}"', "\"'{}'\"", "[{}]", "**{}**", "`{}`", "{}!",
    "Answer: {}", "answer - {}", "The answer is {}.", "Final answer: **{}**", "I think it is {}, most likely",
    "\\boxed{{{}}}", "<answer>{}</answer>", '{{"answer": "{}"}}', "{{'answer': '{}', 'sure': 0.7}}",
    "<think>hm</think>{}", "<think>hm {}", "<think>hm</think>\n\n{}", "```\n{}\n```", "The scan shows a {}",
    "This ultrasound demonstrates the '{}' clearly", "It appears to be {}", "consistent with {}",
    "is indicative of the {}", "The findings are classified as {}; please ask a doctor.", "un{}s", "it is not {}",
    "No {}", "{}\u00a0", "\u3000{}\u3000", "\ufeff{}",
)  # fmt: skip
BETWEEN = (
    "{} or {}", "{} and {}", "either {} or {}", "not {} but {}", "{}, {}", "{}\n{}", "{} to {}", "{}-{}", "{} / {}",
    "{} \u00b1 {}", "between {} and {}", "<think>{}?</think>{}", "first {}, then again {}", "{} (rather than {})",
    '{{"first": "{}", "second": "{}"}}', "rather {} than {}",
)  # fmt: skip
CLASS_WORDS = (
    "fetal", "Maternal", "the cervix", "cervical", "brain", "abdomen and thorax", "femur", "other", "normal", "yes",
    "no", "A", "B)", "option C", "cannot", "0", "1", " 2", "3.", "+1", "-1", "01", "1.0", "7", "\u0661", "\uff11",
    "\u00b2", "1_0", "BI-RADS 4", "4a", "grade 3", "one", "zero",
)  # fmt: skip
PLACES = (
    "central", "centre", "in the middle", "middle", "middle center", "upper", "left", "bottom right", "left upper part",
    "upper-left", "uppermost, leftmost", "lower, somewhat to the right", "not clearly visible", "visible", "invisible",
    "not visible", "lower central", "middle-left", "Upper\u00a0Left", "upper  left", "center left", "lower\ncenter",
    "notvisible", "x=0.4, y=0.6",
)  # fmt: skip
NUMBERS = (
    "{}", "{} mm", "{}mm", "{} %", "{}%", "{} cm", "{} kg", "{}.", "-{}", "+{}", "\u2212{}", "~{}", "about {}",
    "around {}", "value of {}", "a value around {}", "EF = {} %", "the imt is {}mm", "IMT approximately {}",
    "imt measures {} millimeters", "fat value {}", "fat value of {}", "fat content about {}", "a fat percentage of {}%",
    "indicative of {}", "Image 2 suggests {}", "measurement is {}", "the result {} is likely", "reading of {}", "{}e2",
    "{}e-1", "0{}", "1,{}", "{},5", "{}_0", "{} 000", "L1: {}", "0x{}",
)  # fmt: skip
ODD_NUMBERS = (
    "nan", "inf", "-inf", "Infinity", "1e400", "1e-400", ".5", "5.", "-.5", "one", "twenty-one", "half", "\u00bd",
    "1/2", "\u0661\u0662\u066b\u0665", "\u0661\u0662.\u0665", "\uff11\uff12\uff0e\uff15", "\uff11\uff12.5", "5\u00b2",
    "1,200.5", "12,5", "1.234.567", "Null", " NULL ", "NaN.", "0", "00", "-0", "1__0",
)  # fmt: skip


ROWS_PER_CLASS_SET, PLACE_ROWS, ROWS_PER_VALUE_SET = 130, 700, 350


def class_rows(seed: int) -> list[tuple[str, str, str]]:
    """Returns data set, true class and reply of every recorded row about a class, no two of them equal."""
    rng, found = random.Random(seed), dict[tuple[str, str, str], None]()
    for count, dataset in enumerate(CLASS_SETS, start=1):
        while len(found) < count * ROWS_PER_CLASS_SET:
            options = [option.strip() for option in OPTIONS_SEEN[dataset]]
            found[dataset, rng.choice(options), class_reply(rng, dataset)] = None
    return list(found)


def place_rows(seed: int) -> list[str]:
    """Returns every recorded reply about a place, no two of them equal."""
    rng, found = random.Random(seed), dict[str, None]()
    while len(found) < PLACE_ROWS:
        found[place_reply(rng)] = None
    return list(found)


def value_rows(seed: int) -> list[tuple[str, str]]:
    """Returns data set and reply of every recorded row about a value, no two of them equal."""
    rng, found = random.Random(seed), dict[tuple[str, str], None]()
    for count, dataset in enumerate(VALUE_SETS, start=1):
        while len(found) < count * ROWS_PER_VALUE_SET:
            found[dataset, value_reply(rng)] = None
    return list(found)


def wrapped(rng: random.Random, words: Sequence[str]) -> str:
    """Returns one or two of the words, in large or small letters, alone or in a sentence."""
    first, second = (_cased(rng, rng.choice(words)) for _ in range(2))
    if rng.random() < 0.3:
        return rng.choice(BETWEEN).format(first, second)
    return rng.choice(AROUND).format(first)


def class_reply(rng: random.Random, dataset: str) -> str:
    """Returns a reply to a question about the class of an image of a data set, named as the metric scripts do."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(REFUSALS)
    options = OPTIONS_SEEN[dataset]
    if kind < 0.3:
        return wrapped(rng, CLASS_WORDS)
    if kind < 0.4:
        return wrapped(rng, [word for option in options for word in option.split()])
    return wrapped(rng, options)


def place_reply(rng: random.Random) -> str:
    """Returns a reply to a question about a place."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(REFUSALS)
    return wrapped(rng, PLACES if kind < 0.4 else LOCATIONS)


def value_reply(rng: random.Random) -> str:
    """Returns a reply to a question about a clinical value."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(REFUSALS)
    if kind < 0.25:
        return wrapped(rng, ODD_NUMBERS)
    if kind < 0.4:
        return rng.choice(BETWEEN).format(_number(rng), _number(rng))
    said = rng.choice(NUMBERS).format(_number(rng))
    return said if kind < 0.8 else rng.choice(AROUND).format(said)


def _number(rng: random.Random) -> str:
    return rng.choice((str(rng.randint(0, 400)), f"{rng.uniform(0, 99):.1f}", f"{rng.uniform(0, 2):.3f}"))


def _cased(rng: random.Random, word: str) -> str:
    return rng.choice((word, word, word.lower(), word.upper(), word.capitalize()))
