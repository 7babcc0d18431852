"""Words an answer in the ways in which models do, for tests that a right answer is right however it is worded."""

from collections.abc import Callable, Mapping

REASONING = (
    "The picture was looked at from the left to the right. Several findings were weighed against one another, and the "
    "history of the patient was taken into account."
)
Wording = Callable[[str, str], str]
"""A function of (letter, text) that returns a reply."""

LETTERED: Mapping[str, Wording] = {
    "letter": lambda letter, text: letter,
    "letter in brackets": lambda letter, text: f"({letter})",
    "letter with a full stop": lambda letter, text: f"{letter}.",
    "letter and text": lambda letter, text: f"{letter}. {text}",
    "letter and text with a full stop": lambda letter, text: f"{letter}. {text}.",
    "Answer:": lambda letter, text: f"Answer: {letter}",
    "boxed": lambda letter, text: rf"\boxed{{{letter}}}",
    "boxed in text": lambda letter, text: rf"{REASONING} Hence \boxed{{\text{{{letter}}}}}.",
    "answer tags": lambda letter, text: f"<answer>{letter}</answer>",
    "answer tags with text": lambda letter, text: f"<think>{REASONING}</think><answer>{letter}. {text}</answer>",
    "The answer is": lambda letter, text: f"The answer is {letter}.",
    "The answer is, with text": lambda letter, text: f"The answer is ({letter}) {text}.",
    "bold": lambda letter, text: f"**Answer: {letter}**",
    "after reasoning": lambda letter, text: f"{REASONING}\n\n{letter}",
    "after reasoning, stated": lambda letter, text: f"{REASONING}\n\nThe answer is {letter}.",
    "after reasoning, with text": lambda letter, text: f"{REASONING}\n\nAnswer: {letter}. {text}",
}
"""Replies that name an option by its letter."""

IN_WORDS: Mapping[str, Wording] = {
    "text": lambda letter, text: text,
    "text with a full stop": lambda letter, text: f"{text}.",
    "text in tags": lambda letter, text: f"<answer>{text}</answer>",
    "text boxed": lambda letter, text: rf"\boxed{{{text}}}",
    "text stated": lambda letter, text: f"The answer is {text}.",
    "text behind Answer:": lambda letter, text: f"{REASONING}\n\nAnswer: {text}",
}
"""Replies that say an answer in its words."""

WORDINGS: Mapping[str, Wording] = {**LETTERED, **IN_WORDS}
