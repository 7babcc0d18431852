"""Generates replies to a question with options, as models write them, and knows which option each of them means.

All sentences are our own. `meant` is None where a reply means no single option: refusals, hedges, negations,
contradictions and thoughts that were cut off. A parser may leave a meant option unread, but may never read another one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from hypothesis import strategies as st

# {L} and {l}: letter of the meant option; {F}: the same as a full-width letter; {W}: its words; {O}, {P}: letters of
# two other options; {V}: the words of {O}; {N}: an explanation that names no option; {R}: one that rejects {O}.
MEANT: dict[str, tuple[str, ...]] = {
    "letter": ("{L}", "{l}", "{L}.", "{L})", "({L})", "[{L}]", "**{L}**", "`{L}`", '"{L}"', "{L}\n", "_{L}_"),
    "letter_and_words": ("{L}. {W}", "{L}) {W}", "({L}) {W}", "{L}: {W}", "**{L}. {W}**", "{L} - {W}", "{L}, {W}."),
    "letter_then_reason": (
        "{L}. {N}", "{L}\n\n{N}", "({L}) {N}", "**{L}**\n{N}", "{L}. {W}. {N} {R}", "({L}) because {R}", "{L}) {N} {R}",
        "{L}.\n{N}\n{R}", "**{L}. {W}**\n\n{R}", "{L}. {W}\n\nOption {O} is less likely. Option {P} does not fit.",
    ),
    "answer_statement": (
        "Answer: {L}",
        "answer: {l}",
        "ANSWER:{L}",
        "Answer: ({L})",
        "Answer: **{L}**",
        "**Answer: {L}**",
        "**Answer:** {L}",
        "Answer - {L}",
        "Answer: {L}. {W}",
        "Answer:\n{L}",
        "The answer is {L}",
        "The answer is ({L}).",
        "The answer is **{L}**.",
        "The correct answer is {L}) {W}",
        "The best answer would be {L}.",
        "My answer is {L}, since {N}",
        "### Answer\n{L}",
    ),
    "reason_then_answer": (
        "{N}\nAnswer: {L}",
        "{N} {R}\n\nAnswer: {L}",
        "{R}\n\n**Final Answer: {L}**",
        "{N}\n\nFinal Answer: **{L}**",
        "{R} {N} Therefore, the answer is {L}.",
        "{N} So the correct answer is ({L}) {W}.",
        "Option {O} is wrong. Option {P} is wrong too. The answer is {L}.",
        "Let me compare option {O} with option {L}.\n{N}\nThe correct answer is {L}.",
        "Is it {V}? {N}\nAnswer: {L}. {W}",
    ),
    "answer_then_reason": (
        "Answer: {L}\n\n{N} {R}",
        "Answer: {L}\nExplanation: option {O} would need another view.",
        "**Answer: {L}. {W}**\n\n{R}",
        "The answer is {L}. {N} Option {O} would be {V}.",
        "Answer: {L}\n\n* Option {O} is incorrect.\n* Option {P} is incorrect.",
    ),
    "option_statement": (
        "Option {L}", "option {l}.", "Option ({L})", "**Option {L}**", "The correct option is {L}.",
        "The correct option is ({L}) {W}.", "The best choice is {L}.", "Choice: {L}", "I choose option {L}.",
        "{N} Hence option {L} is correct.",
    ),
    "per_option_reasoning": (
        "A: seen.\nB: seen.\nC: seen.\nThe answer is {L}.",
        "Option {O}: {V}. This does not fit.\nOption {L}: {W}. This fits.\nAnswer: {L}",
        "- Option {O} is excluded.\n- Option {P} is excluded.\n\nFinal answer: {L}",
        "({O}) {V}: no sign of it.\n({L}) {W}: typical.\n\nThe correct answer is ({L}).",
        "{O}. {V}: unlikely.\n{L}. {W}: likely.\n\nAnswer: {L}",
    ),
    "words": ("{W}", "{W}.", "**{W}**", '"{W}"', "- {W}", "`{W}`", "{W}\n"),
    "words_in_a_sentence": ("It is {W}.", "The image shows {W}.", "This is most likely {W}.", "I can see {W} here."),
    "words_stated": ("The answer is {W}.", "Answer: {W}", "Final answer: **{W}**", "{N} The answer is {W}."),
    "words_contrasted": ("It is {W}, not {V}.", "{W} rather than {V}.", "This is not {V} but {W}."),
    "thinking": (
        "<think>Option {O}? No, {N}</think>{L}",
        "<think>Answer: {O}. Wait.</think>\n\nAnswer: {L}",
        "<think>\nIt could be {O} or {P}.\n</think>\n\n{L}. {W}",
        "<think></think>{L}",
    ),
    "thinking_without_opening": ("It could be {O}. Hm.\n</think>\n\n{L}", "Answer: {O}? No.</think>Answer: {L}"),
    "json": (
        '{{"answer": "{L}"}}',
        '{{"answer":"{L}","reason":"{N}"}}',
        '```json\n{{"answer": "{L}"}}\n```',
        '```\n{{"reason": "{R}", "answer": "{L}"}}\n```',
        "{{'answer': '{L}'}}",
        '{{"answer": "{L}. {W}"}}',
        '{{"final_answer": "{L}"}}',
    ),
    "tags": (
        "<answer>{L}</answer>",
        "<answer> {L}. {W} </answer>",
        "<think>{R}</think><answer>{L}</answer>",
        "{N}\n<answer>{L}</answer>",
        "<ANSWER>\n{L}\n</ANSWER>",
        "<|begin_of_box|>{L}<|end_of_box|>",
        "<answer>{W}</answer>",
    ),
    "boxed": (
        r"\boxed{{{L}}}", r"$\boxed{{{L}}}$", r"\boxed{{\text{{{L}}}}}", r"The final answer is $\boxed{{{L}}}$.",
        r"{R} \boxed{{{L}}}", r"Therefore, \(\boxed{{\textbf{{{L}}}}}\)", r"\boxed{{{L}. {W}}}",
    ),
    "unicode": (
        "{F}", "Answer：{L}", "答案：{L}", "答案是{L}", "（{L}）", "{F}．{W}", "Answer: {F}", "{L}\u200b", "\ufeff{L}",
    ),
    "blanks": (" {L}", "\n{L}", "\t{L}\n", "  {L}. {W}", "\n\nAnswer: {L}\n", "\u00a0{L}"),
}  # fmt: skip

NOT_MEANT: dict[str, tuple[str, ...]] = {
    "empty": ("", " ", "\n", "...", "-", "**", "?"),
    "refusal": (
        "I cannot determine this from the clip.", "I'm sorry, but I can't help with that.", "Cannot be determined",
        "As an assistant I am not able to give a diagnosis.", "Definitely a matter for a doctor.",
        "Because the view is poor, nobody can tell.", "Unable to answer.", "Answer: cannot be determined",
        "Answer: none", "N/A", "None of the above.",
    ),
    "hedge": (
        "Either {L} or {O}.", "{L} or {O}", "{L}/{O}", "{L} and {O}", "{L}, {O}", "Both ({L}) and ({O})",
        "Answer: {L} or {O}", "Answer: {L} and {O}", "Answer: {L}, {O}", "Answer: {L}/{O}",
        "The answer is either {L} or {O}.", "It is {W} or {V}.", "Answer: {W} or {V}", "Option {L} or option {O}",
        "{L}{O}", "Answer: {L}{O}", '{{"answer": ["{L}", "{O}"]}}', "<answer>{L}, {O}</answer>", r"\boxed{{{L}, {O}}}",
        "({L}) or ({O})",
    ),
    "contradiction": (
        "Answer: {L}\nAnswer: {O}",
        "The answer is {L}. The answer is {O}.",
        "Answer: {L} ({V})",
        "{L}. {V}",
        r"\boxed{{{L}}} \boxed{{{O}}}",
        "<answer>{L}</answer><answer>{O}</answer>",
    ),
    "negation": (
        "Not {L}.", "Answer: not {L}", "The answer is not {L}.", "It isn't {W}.", "Not {W}", "Neither {L} nor {O}",
        "The correct answer cannot be {L}.", "Option {L} is wrong.", "Option {L} is incorrect because {N}",
        "Option {L} can be ruled out.",
    ),
    "cut_off": (
        "<think>Option {L} looks right, since {N}",
        "<think>Answer: {L}? Let me look again",
        "Let us look at option {L} and option {O} first",
        "The answer is",
        "Answer:",
    ),
    "no_such_option": ("Z", "Answer: Z", "(Z)", "Option Z", "5", "Answer: 3"),
    "chatter": (
        "A good view of the region.", "Blood flow is seen.", "Depth and gain were changed.", "Can you see the wall?",
        "I see a structure.", "A look at the image shows much.", "12.5 mm", "10-12 cm", "٣ mm", "１２ cm", "1,123 cc",
        "3 x 4 x 5 mm",
    ),
    "list_of_all": ("A. seen\nB. seen\nC. seen", "(A) (B) (C)", "A, B, C", "The options are A, B and C."),
}  # fmt: skip

_NEUTRAL = (
    "the echo is bright and its edge is smooth.",
    "the probe was turned slowly before.",
    "this is typical for the view.",
    "the shadow behind it tells so.",
    "the depth is about 4.5 cm here.",
    "compared with the other side it looks darker.",
)
_REJECTING = (
    "option {O} is wrong.",
    "Option {O} is less likely.",
    "option {O} would look different.",
    "Option {O} and option {P} do not fit.",
    "({O}) does not explain the shadow.",
    "{V} would lie deeper.",
)


@dataclass(frozen=True, slots=True)
class GeneratedReply:
    """A generated reply."""

    text: str  # The reply.
    meant: int | None  # The index of the option that the reply means, from 0; None if it means no single option.
    kind: str  # The kind of the reply, a key of `MEANT` or of `NOT_MEANT`.


def replies(seed: int, count: int, options: Sequence[str]) -> list[GeneratedReply]:
    """Returns `count` replies to a question with these options, the same for the same seed on every machine.

    Args:
        options: Three or more options, which differ in their words and of which none contains another.
    """
    if len(options) < 3:
        raise ValueError(f"wanted three options or more, got {len(options)}")
    rng = random.Random(seed)
    return [_reply(rng, options) for _ in range(count)]


def generated_replies(options: Sequence[str]) -> st.SearchStrategy[GeneratedReply]:
    """Returns a hypothesis strategy of replies to a question with these options."""
    return st.integers(0, 2**32 - 1).map(lambda seed: replies(seed, 1, options)[0])


def _reply(rng: random.Random, options: Sequence[str]) -> GeneratedReply:
    table = MEANT if rng.random() < 2 / 3 else NOT_MEANT
    kind = rng.choice(sorted(table))
    meant, other, third = rng.sample(range(len(options)), 3)
    words = {
        "L": ascii_uppercase[meant],
        "l": ascii_uppercase[meant].lower(),
        "F": chr(ord("Ａ") + meant),
        "W": options[meant],
        "O": ascii_uppercase[other],
        "P": ascii_uppercase[third],
        "V": options[other],
        "N": rng.choice(_NEUTRAL),
    }
    words["R"] = rng.choice(_REJECTING).format(**words)
    text = rng.choice(table[kind]).format(**words)
    return GeneratedReply(text, meant if table is MEANT else None, kind)
