"""`medtune.Vlm`: a vision-language model of transformers and its processor, both in memory, that answers questions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel, ProcessorMixin

from medtune.data.types import MediaGroup, Prediction, Request, VolumesAs
from medtune.models.answering import LocalAnswerer, ShownRequests
from medtune.models.transformers_vlm.generic.loading import generic_reader
from medtune.models.weights.adapter_settings import CONFIG
from medtune.models.weights.checkpoint import read_about
from medtune.models.weights.export import is_exported, read_exported
from medtune.models.weights.loading_options import DEFAULT
from medtune.models.weights.whole_folders import is_checkpoint
from medtune.models.weights.write_adapter import read_about_adapter


class Vlm:
    """A model of transformers with its processor, for `medtune.evaluate`.

    The processor's own chat template writes the question and the model's own forward reads it, one sequence in a row,
    on the device and in the number type that the model has. Adapters of peft stay active. The model is in evaluation
    mode while it answers, and afterwards as it was.

    Attributes:
        trained: What each export, adapter or checkpoint that the weights are from says about itself; empty for adapters
            that say nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        processor: ProcessorMixin,
        *,
        max_new_tokens: int = 64,
        batch_size: int = 8,
        batch_tokens: int = 4096,
        temperature: float = 0.0,
        seed: int = 0,
        video_frames: int | None = None,
        volumes_as: VolumesAs | None = None,
        trained: str | Path | None = None,
    ) -> None:
        """Wraps a model and its processor.

        Args:
            model: What `AutoModelForImageTextToText.from_pretrained` returns, or a peft model around it.
            processor: What `AutoProcessor.from_pretrained` returns for the same checkpoint.
            max_new_tokens: The largest number of tokens in a reply.
            batch_size: The number of images, with their questions, that are answered together.
            batch_tokens: The largest number of tokens, padding included, in one forward pass.
            temperature: The temperature at which replies are drawn; 0 is greedy.
            video_frames: The number of frames of a video; None takes 16.
            volumes_as: How a CT volume is shown to a model of videos: "slices", "video" or "slice"; None refuses
                volumes.
            trained: The folder that `medtune export` wrote, or a run's checkpoint, where the weights or adapters are
                from; evaluations compare what they learnt from with what is asked. Exports in their own folder are
                known without it.
        """
        for what, number in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
            if number < 1:
                raise ValueError(f"medtune.Vlm: {what} is {number}; it must be at least 1")
        self._whole = _base_model(model)
        self.trained = _facts(self._whole, trained, is_adapted=self._whole is not model)
        _refuse_no_processor(processor)
        loading = replace(DEFAULT, video_frames=video_frames, volumes_as=volumes_as)
        try:
            assembled = generic_reader(processor, self._whole.config, loading).around(self._whole, {})
        except ValueError as error:
            raise ValueError(f"{type(self._whole).__name__} with {type(processor).__name__}: {error}") from error
        self._answerer = LocalAnswerer(
            assembled,
            device=self._whole.device,
            batch_tokens=batch_tokens,
            max_new_tokens=max_new_tokens,
            precise=nullcontext,
            batch_size=batch_size,
            temperature=temperature,
            seed=seed,
        )

    def expect(self, visits: Sequence[ShownRequests]) -> None:
        """Announces the requests that `answer` will get, in that order."""
        self._answerer.expect(visits)

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        with _evaluating(self._whole):
            answered = list(self._answerer.answer(group, requests))
        yield from answered


def _base_model(model: object) -> PreTrainedModel:
    if isinstance(model, PeftModel):
        if model.active_peft_config.is_prompt_learning:
            raise ValueError(
                f"{type(model.active_peft_config).__name__}: learnt prompts are put in by peft's own forward, which "
                "medtune does not call; adapters inside the layers, such as LoRA, are read"
            )
        found: object = model.get_base_model()
        model = found
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"medtune.Vlm: a {type(model).__name__} is no model of transformers; give what "
            "AutoModelForImageTextToText.from_pretrained returns"
        )
    return model


def _facts(whole: PreTrainedModel, trained: str | Path | None, *, is_adapted: bool) -> tuple[dict[str, str], ...]:
    name = whole.name_or_path or ""
    found = [read_exported(name)] if name and is_exported(name) else []
    if trained is not None:
        found.append(_stated(Path(trained)))
    elif is_adapted or getattr(whole, "_hf_peft_config_loaded", False):
        # Adapters do not say where they are from.
        found.append({})
    return tuple(found)


def _stated(trained: Path) -> dict[str, str]:
    if is_exported(str(trained)):
        return read_exported(str(trained))
    if (trained / CONFIG).is_file():
        return read_about_adapter(trained)
    if is_checkpoint(trained):
        return read_about(trained)
    raise ValueError(
        f"medtune.Vlm: trained={str(trained)!r} is no folder that medtune export wrote, no adapter and no checkpoint"
    )


def _refuse_no_processor(processor: object) -> None:
    if all(hasattr(processor, name) for name in ("tokenizer", "image_processor")):
        return
    got = "no processor" if processor is None else f"a {type(processor).__name__}, which is no processor for images"
    raise TypeError(
        f"medtune.Vlm: got {got}; the second argument is what AutoProcessor.from_pretrained returns for the model's "
        "checkpoint"
    )


@contextmanager
def _evaluating(whole: PreTrainedModel) -> Iterator[None]:
    learning: list[Any] = [module for module in whole.modules() if module.training]
    whole.eval()
    try:
        yield
    finally:
        for module in learning:
            module.training = True
