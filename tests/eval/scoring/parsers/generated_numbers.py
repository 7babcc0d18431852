"""Generates replies to a question for a number or for yes or no, and knows which answer each of them means.

All sentences are our own. `meant` is None where a reply means no single answer: ranges, several numbers, refusals and
the like. A parser may leave a meant answer unread, but may never read another one.
"""

import random
from dataclasses import dataclass

from hypothesis import strategies as st

# {n}: the number with a decimal point; {c}: with a decimal comma; {t}: with thousands separators; {m}, {k}: two other
# numbers; {u}: the unit; {e}: with an exponent; {d}: in full-width digits; {r}: in Arabic-Indic digits; {s}: signed.
MEANT: dict[str, tuple[str, ...]] = {
    "plain": ("{n}", "{n}.", " {n}", "{n}\n", "**{n}**", "`{n}`", '"{n}"', "({n})"),
    "unit": ("{n} {u}", "{n}{u}", "{n} {u}.", "**{n} {u}**", "about {n} {u}", "approximately {n} {u}", "~{n} {u}"),
    "sentence": ("It is {n} {u}.", "The size is {n} {u}.", "I measure {n} {u} here.", "It measures about {n} {u}."),
    "statement": ("Answer: {n}", "Answer: {n} {u}", "**Answer:** {n}", "The answer is {n} {u}.", "Final answer: {n}"),
    "reason_then_answer": (
        "In image {k} the edge is sharp.\nAnswer: {n} {u}",
        "Between {m} and {k} others hesitate. Final answer: {n} {u}",
    ),
    "decimal_comma": ("{c}", "{c} {u}", "Answer: {c}", "It is {c} {u}."),
    "thousands": ("{t}", "{t} {u}", "Answer: {t} {u}"),
    "exponent": ("{e}", "{e} {u}"),
    "signed": ("{s}", "{s} {u}", "Answer: {s}"),
    "spread": ("{n} ± 0.2 {u}", "{n} +/- 0.2 {u}"),
    "thinking": ("<think>{m} or {k}?</think>{n}", "<think>{m} {u}</think>\n{n} {u}"),
    "json": ('{{"answer": {n}}}', '{{"answer": "{n} {u}"}}', '```json\n{{"answer": {n}}}\n```'),
    "tags": ("<answer>{n}</answer>", "<answer>{n} {u}</answer>", r"\boxed{{{n}}}", r"$\boxed{{{n}\text{{ {u}}}}}$"),
    "unicode_digits": ("{d}", "{d} {u}", "{r}", "{r} {u}"),
}

NOT_MEANT: dict[str, tuple[str, ...]] = {
    "range": ("{n}-{m} {u}", "{n} to {m} {u}", "between {n} and {m} {u}", "{n}–{m}", "{n} or {m} {u}", "{n}/{m}"),
    "several": ("{n} {u}, {m} {u}", "{n} x {m} {u}", "{n} {u} and {m} {u}", "first {n}, then {m}"),
    "empty": ("", " ", "...", "-"),
    "refusal": ("I cannot tell.", "Unable to measure.", "N/A", "not a number", "None", "nan", "inf"),
    "cut_off": ("<think>It may be {n} {u}", "The answer is"),
}

YES_NO: dict[str, tuple[str, ...]] = {
    "word": ("{Y}", "{y}", "{Y}.", "**{Y}**", " {Y}", "{Y}\n", '"{Y}"'),
    "word_then_reason": ("{Y}, the edge is sharp.", "{Y}. The shadow tells so.", "**{Y}**\nThe view is good."),
    "statement": ("Answer: {Y}", "The answer is {y}.", "**Answer:** {Y}", "Final answer: {Y}"),
    "thinking": ("<think>{X}? Hm.</think>{Y}", "<think>yes or no</think>\n{Y}.", "{X}, or not? Hm.\n</think>\n\n{Y}"),
    "tags": ("<answer>{Y}</answer>", r"\boxed{{{Y}}}", '{{"answer": "{y}"}}'),
}

NOT_YES_NO: dict[str, tuple[str, ...]] = {
    "both": ("yes and no", "{Y} or {x}", "{Y}/{X}", "Yes. No."),
    "neither": ("", "I cannot tell.", "Perhaps", "Normal liver", "Nodule", "unclear", "not certain", "Nothing seen"),
    "cut_off": ("<think>{Y}, since the edge",),
}


@dataclass(frozen=True, slots=True)
class GeneratedNumber:
    """A generated reply to a question for a number."""

    text: str  # The reply.
    meant: float | None  # The number that the reply means; None if it means no single number.
    kind: str  # The kind of the reply, a key of `MEANT` or of `NOT_MEANT`.


@dataclass(frozen=True, slots=True)
class GeneratedYesNo:
    """A generated reply to a question for yes or no."""

    text: str  # The reply.
    meant: str | None  # "yes", "no", or None if the reply means neither or both.
    kind: str  # The kind of the reply, a key of `YES_NO` or of `NOT_YES_NO`.


def number_replies(seed: int, count: int, unit: str) -> list[GeneratedNumber]:
    """Returns `count` replies to a question for a number in `unit`, the same for the same seed on every machine."""
    rng = random.Random(seed)
    return [_number(rng, unit) for _ in range(count)]


def yes_no_replies(seed: int, count: int) -> list[GeneratedYesNo]:
    """Returns `count` replies to a question for yes or no, the same for the same seed on every machine."""
    rng = random.Random(seed)
    return [_yes_no(rng) for _ in range(count)]


def generated_numbers(unit: str) -> st.SearchStrategy[GeneratedNumber]:
    """Returns a hypothesis strategy of replies to a question for a number in `unit`."""
    return st.integers(0, 2**32 - 1).map(lambda seed: number_replies(seed, 1, unit)[0])


def _number(rng: random.Random, unit: str) -> GeneratedNumber:
    table = MEANT if rng.random() < 2 / 3 else NOT_MEANT
    kind = rng.choice(sorted(table))
    cents, larger = rng.randrange(101, 9900), rng.randrange(10_000, 9_999_999)
    other, third = (cents + rng.randrange(100, 900) for _ in range(2))
    value = {"thousands": float(larger), "exponent": cents * 10.0, "signed": -cents / 100}.get(kind, cents / 100)
    size = f"{cents / 100:.2f}"
    words = {
        "n": size,
        "c": size.replace(".", ","),
        "t": f"{larger:,}",
        "e": f"{size}e3",
        "s": f"-{size}",
        "d": size.translate({ord("0") + digit: ord("０") + digit for digit in range(10)}),
        "r": size.translate({ord("0") + digit: ord("٠") + digit for digit in range(10)}),
        "m": f"{other / 100:.2f}",
        "k": f"{third / 100:.2f}",
        "u": unit,
    }
    text = rng.choice(table[kind]).format(**words)
    return GeneratedNumber(text, value if table is MEANT else None, kind)


def _yes_no(rng: random.Random) -> GeneratedYesNo:
    table = YES_NO if rng.random() < 2 / 3 else NOT_YES_NO
    kind = rng.choice(sorted(table))
    meant, other = rng.sample(("yes", "no"), 2)
    words = {"y": meant, "Y": meant.capitalize(), "x": other, "X": other.capitalize()}
    text = rng.choice(table[kind]).format(**words)
    return GeneratedYesNo(text, meant if table is YES_NO else None, kind)
