"""The tokens that end a reply: the one that the chat template ends a turn with, and those that a checkpoint adds."""

from collections.abc import Sequence as Many
from pathlib import Path

from transformers import GenerationConfig, PreTrainedTokenizerBase

from medtune.data.json_text import json_value
from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, Template


def ended_by(template: Template, generation: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> Template:
    """Returns a template whose replies the end tokens of a checkpoint end as well.

    Args:
        template: The template, whose own token is the one that is learnt and stays the first.
    """
    stop_ids = tuple(dict.fromkeys((*template.stop_ids, *end_ids(generation, tokenizer))))
    return template if stop_ids == template.stop_ids else EndedBy(template, stop_ids)


def end_ids(generation: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Returns the ids of the tokens that end a reply according to a checkpoint's generation configuration.

    Where generation_config.json is missing or was only copied from config.json, an id counts only if the tokenizer
    knows it as a control token, because it may be transformers' default for the architecture and a letter here.
    """
    said = None if generation is None else generation.eos_token_id
    ids = tuple(int(each) for each in (said if isinstance(said, list | tuple) else [said]) if each is not None)
    if not getattr(generation, "_from_model_config", False):
        return ids
    control = {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}
    return tuple(each for each in ids if each in control)


def read_generation(folder: Path) -> GenerationConfig | None:
    """Returns what generation_config.json in a folder says; None where there is no such file."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return None
    try:
        return GenerationConfig.from_dict(json_value(path.read_text("utf-8")))
    except Exception as error:
        raise ValueError(f"{path}: damaged ({error}). Copy or download it again.") from error


def cut_behind(ids: Many[int], stop_ids: Many[int]) -> list[int]:
    """Returns the ids up to the first that ends a reply, which is kept.

    >>> cut_behind([5, 6, 1, 7, 2], (2, 1))
    [5, 6, 1]
    """
    end = next((place for place, each in enumerate(ids) if each in stop_ids), None)
    return list(ids if end is None else ids[: end + 1])


class EndedBy:
    """A template that lays out as another does, and whose replies several tokens end.

    Attributes:
        stop_ids: The tokens that end a reply, the one that is learnt first; None for the other template's.
    """

    def __init__(self, template: Template, stop_ids: tuple[int, ...] | None = None) -> None:
        self.template = template
        self.pad_id = template.pad_id
        self.stop_ids = template.stop_ids if stop_ids is None else stop_ids
        self.decode, self.pieces, self.save = template.decode, template.pieces, template.save

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        return self.template.layout(prompt, answer, shapes=shapes, turns=turns)


class ContextLimited(EndedBy):
    """A template that lays out as another does, and refuses sequences that are too long."""

    def __init__(self, template: Template, *, max_tokens: int) -> None:
        super().__init__(template)
        self._max_tokens = max_tokens

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        sequence = super().layout(prompt, answer, shapes=shapes, turns=turns)
        if len(sequence.ids) > self._max_tokens:
            of_media = sum(span.stop - span.start for span in sequence.media_spans)
            raise ValueError(
                f"a sequence of {len(sequence.ids)} tokens where the language model reads {self._max_tokens} "
                f"(max_position_embeddings); {of_media} of them are the media's and {sequence.num_targets} the "
                "answer's. Show fewer items, take a projector (model.projector) or a variant (model.variant) with "
                "fewer tokens, or shorten the question or the answer; nothing is ever cut"
            )
        return sequence
