"""Generates replies to letters, numbers, yes or no, and phrases about CT scans, from a seed, in our own words.

The official code of version 2 reads them once, and its readings are recorded in official_readings.json; the hypothesis
tests use the same sentences with other words in them.
"""

import random

REFUSALS = ("", " ", "\n", "I cannot tell.", "Sorry, no.", "N/A", "none", "nan", "null", "<think>", "<think>a</think>")
AROUND = (
    "{}", " {}", "{}\n", "{}.", "{} .", "{} ,", "{} !", "{}  ;", ". {}", "- {}", "{} -", "({})", "( {} )", "'{}'",
    '" {} "', "**{}**", "** {} **", "{})", "{}:", "Answer: {}", "answer is {}", "The answer is ({}).", "Option {}",
    "I think it is {}, most likely", "Both are thinkable; {}", "\\boxed{{{}}}", "<answer>{}</answer>",
    '{{"answer": "{}"}}', "<think>A or B</think>{}", "<think>yes, 12</think> {} .", "<think>hm {}", "{}<think>no 5",
    "<think>no</think>{}<think>yes</think>", "</think>{}", "<THINK>yes</THINK>{}", "```\n{}\n```",
    "Based on the scan: {}", "not {}", "{}\u00a0", "{} \u2026", "\u3000{}\u3000.", "\ufeff{}",
)  # fmt: skip
BETWEEN = (
    "{} or {}", "{} and {}", "{}, {}", "{}\n{}", "{}-{}", "{} / {}", "{}; not {}", "<think>{}</think>{}", "{} {} .",
)  # fmt: skip
LETTERS = (
    *"ABCD", *"abcd", "E", "\u0410", "\uff22", "Because", "Cannot", "Definitely", "A big one", "none of A", "ABC",
)  # fmt: skip
YES_NO = (
    "yes", "no", "Yes", "NO", "normal", "nodule", "not certain", "notably", "now visible", "absent", "present",
    "negative", "positive", "neither yes nor no", "eyes", "yes-man", "no one", "unknown", "y", "n", "true", "0", "ye s",
    "YES\u0130", "no\u0301",
)  # fmt: skip
NUMBERS = (
    "{}", "{} mm", "{}cm", "{} HU", "-{}", "\u2212{}", "+{}", "{}.", "{}e2", ".{}", "1,{}", "{},5", "L1, {} mm",
    "{}-12", "10 to {}", "{}/3", "{}%", "{}\u00b2", "{}_0", "--{}", "minus {}", "about {} cc", "= {}", "{}...", "{}..5",
)  # fmt: skip
ODD_NUMBERS = (
    "three", "twenty-one", "\u00bd", "\u0661\u0662\u066b\u0665", "\u0663.\u0665", "-\uff11\uff12.5", "inf", "nan", "-",
    "-.", "9" * 400, "1" + "0" * 309, "0", "-0", "00.50", "1.2.3",
)  # fmt: skip
PHRASES = (
    "liver", "segment 7", "Segment-7", "left kidney", "right kidney", "T2", "cyst", "benign cyst", "hypo-attenuating",
    "pancreas head", "stage  T3", "mild (grade 1)", "grade 1", "kidney\ttumor", "stra\u00dfe", "STRASSE", "\u00c4rea",
    "caf\u00e9", "cafe\u0301", "a_b",
)  # fmt: skip
KINDS = {"letter": 500, "yes_no": 500, "number": 700, "phrase": 700}
"""The number of recorded replies by the kind of answer."""
TRUE_NUMBERS = ("0", "1", "12.5", "-35", "1293.7 cm", "3", "0.05", "none", "400")


def rows(seed: int) -> list[tuple[str, str, str]]:
    """Returns kind, true answer and reply of every recorded row, no two of them equal."""
    rng, found = random.Random(seed), dict[tuple[str, str, str], None]()
    for kind, count in KINDS.items():
        wanted = len(found) + count
        while len(found) < wanted:
            true = truth(rng, kind)
            is_right = kind == "phrase" and rng.random() < 0.5
            found[kind, true, rng.choice(AROUND).format(true) if is_right else reply(rng, kind)] = None
    return list(found)


def reply(rng: random.Random, kind: str) -> str:
    """Returns a reply to a question of a kind: "letter", "yes_no", "number" or "phrase"."""
    if rng.random() < 0.06:
        return rng.choice(REFUSALS)
    if rng.random() < 0.2:
        return rng.choice(BETWEEN).format(_word(rng, kind), _word(rng, kind))
    return rng.choice(AROUND).format(_word(rng, kind))


def truth(rng: random.Random, kind: str) -> str:
    """Returns a true answer to a question of a kind, as a table of version 2 holds it."""
    of: dict[str, tuple[str, ...]] = {
        "letter": tuple("ABCD"),
        "yes_no": ("Yes", "No"),
        "number": TRUE_NUMBERS,
        "phrase": PHRASES,
    }
    return rng.choice(of[kind])


def _word(rng: random.Random, kind: str) -> str:
    if kind == "number":
        said = rng.choice((str(rng.randint(0, 2000)), f"{rng.uniform(0, 99):.1f}", f"{rng.uniform(0, 2):.3f}"))
        return rng.choice(NUMBERS).format(said) if rng.random() < 0.8 else rng.choice(ODD_NUMBERS)
    of: dict[str, tuple[str, ...]] = {"letter": LETTERS, "yes_no": YES_NO, "phrase": PHRASES}
    word = rng.choice(of[kind])
    return rng.choice((word, word, word.lower(), word.upper()))
