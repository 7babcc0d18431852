"""Lets a Python function answer like a model: it is called with the pictures and the prompt and returns the reply."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import PIL.Image

from medtune.data.media.load import pictures_of
from medtune.data.readable import readable_text
from medtune.data.types import MediaGroup, Prediction, Request
from medtune.eval.asking.answerer import Answerer

AnswerFunction = Callable[[list[PIL.Image.Image], str], str]
"""A function of (pictures, prompt) that returns the reply.

The pictures are RGB: one for each image, some frames of a video, and none where a question is asked without media.
"""


def as_answerer(given: Answerer | AnswerFunction) -> Answerer:
    """Returns what is asked: an answerer as it is, or one that calls a Python function.

    Raises:
        TypeError: It is neither; the message says what to give instead.
    """
    if isinstance(given, type):
        raise TypeError(f"{given.__name__} is a class; give an object of it: {given.__name__}(...)")
    if _answers(given):
        return given
    if _is_loose_model(given):
        raise TypeError(f"a {type(given).__name__} is asked through its processor: give medtune.Vlm(model, processor)")
    if callable(given):
        return Calling(given)
    raise TypeError(
        f"a {type(given).__name__} cannot be asked. Give medtune.Vlm(model, processor), a function of (images, prompt) "
        "that returns a text, or an object with a method answer(group, requests)"
    )


def _answers(given: object) -> TypeGuard[Answerer]:
    return callable(getattr(given, "answer", None))


def _is_loose_model(given: object) -> bool:
    """Returns whether it is a model or pipeline of transformers, or a pair that holds one, without importing that."""
    parts = given if isinstance(given, tuple | list) else (given, getattr(given, "model", None))
    return any(hasattr(part, "forward") and hasattr(part, "config") for part in parts)


@dataclass(frozen=True, slots=True)
class Calling:
    """Answers by calling a Python function, which only generates replies.

    Attributes:
        function: The function.
    """

    function: AnswerFunction

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields the function's reply to each request.

        Raises:
            ValueError: The log-likelihood of options is asked for, which a function does not give.
            TypeError: The function returned something else than a text.
        """
        is_shown = any(request.condition != "text_only" for request in requests)
        shown = [each for ref in group.media for each in pictures_of(ref)] if is_shown else []
        for request in requests:
            if request.reading != "generation":
                raise ValueError("a Python function gives no log-likelihoods; leave readings=('generation',)")
            # Each call gets pictures of its own, so that a function that draws on one changes no other question.
            pictures = [] if request.condition == "text_only" else [picture.copy() for picture in shown]
            try:
                said: object = self.function(pictures, prompt_text(request))
            except Exception as error:
                error.add_note(f"raised by the function, called with (images, prompt) for {request.question.id}")
                raise
            if not isinstance(said, str):
                raise TypeError(
                    f"the function returned {said!r:.80} ({type(said).__name__}) for the question "
                    f"{request.question.id}; wanted a text (str), '' for no answer"
                )
            yield Prediction(request.key, text=said)


def prompt_text(request: Request) -> str:
    """Returns the prompt with the earlier turns of its conversation in front; "[image]" marks the place of an item."""
    turns = [f"{turn.asked}\n{turn.answer}" for turn in request.question.turns]
    return readable_text("\n\n".join([*turns, request.prompt.text]))
