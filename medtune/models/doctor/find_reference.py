"""Finds plain transformers' side for a model: the processor in its checkpoint's folder, or its three parts.

Asks the language model of a model in three parts through plain transformers, with embeddings put in by hand.

No transformers class exists for such a model, so nothing else can be asked. The sequence of tokens is medtune's; rows,
trees, masks, positions and caches are transformers' own.

Shape legend: L tokens, E embedding width, N visual tokens, V vocabulary.
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medtune.data.types import MediaRef
from medtune.models.contract import Assembled
from medtune.models.doctor.asked import AskedQuestion, laid_out
from medtune.models.doctor.plain_processor import FramesAs, ProcessorReference
from medtune.models.doctor.reference import Continued, Reference
from medtune.models.media_reader import read_item
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.loading import read_processor
from medtune.models.transformers_vlm.media import ProcessorTransform, as_images
from medtune.models.tuning.precision import Precise
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.proof.plain_reader import logprobs_from


class PartsReference:
    """A tower, a projector and a language model of transformers, run one after another."""

    def __init__(self, assembled: Assembled, model: VisionLanguageModel, *, precise: Precise) -> None:
        self._assembled = assembled
        self._model = model
        self._precise = precise

    @property
    def end_id(self) -> None:
        """None, because a release states the end of an answer in its code, not in its files."""
        return None

    def ids(self, asked: AskedQuestion) -> None:
        """Returns None, because there is no processor."""

    def pixels(self, asked: AskedQuestion) -> Mapping[str, Tensor] | None:
        """Returns None, because there is no processor."""
        return None

    def logprobs(self, asked: AskedQuestion, answer: str, /) -> Tensor:
        """Returns the log-probability of each token of the answer, with its graph of gradients."""
        layout = laid_out(asked, answer, self._assembled.family, self._assembled.transform)
        language: Any = self._model.language
        with self._precise():
            logits_LV = language(inputs_embeds=self._embedded(asked, layout)).logits[0]
        return logprobs_from(logits_LV, layout.ids, len(layout.ids) - layout.num_targets)

    @torch.no_grad()
    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the greedy reply, for which the whole sequence is read anew for every token, without a cache."""
        layout = laid_out(asked, None, self._assembled.family, self._assembled.transform)
        language: Any = self._model.language
        said: list[int] = []
        seen: list[Tensor] = []
        with self._precise():
            embedded = self._embedded(asked, layout)
            for _ in range(max_new_tokens):
                logits_V = language(inputs_embeds=embedded, use_cache=False).logits[0, -1]
                seen.append(logits_V.float().log_softmax(-1).cpu())
                said.append(int(logits_V.argmax()))
                if said[-1] in self._assembled.family.stop_ids:
                    break
                last = torch.tensor([[said[-1]]], device=embedded.device)
                embedded = torch.cat([embedded, self._model.language.get_input_embeddings()(last)], dim=1)
        return Continued(tuple(said), torch.stack(seen))

    def _embedded(self, asked: AskedQuestion, layout: Layout) -> Tensor:
        device = next(self._model.parameters()).device
        tokens = [self._visual_tokens(ref) for ref in asked.media]
        embedded_LE: Tensor = self._model.language.get_input_embeddings()(torch.tensor(layout.ids, device=device))
        pieces, last = [], 0
        for span in layout.media_spans:
            pieces += [embedded_LE[last : span.start], tokens[span.item].to(embedded_LE.dtype)]
            last = span.stop
        whole_LE = torch.cat([*pieces, embedded_LE[last:]])
        if len(whole_LE) != len(layout.ids):
            raise ValueError(
                f"the sequence has {sum(span.stop - span.start for span in layout.media_spans)} places for visual "
                f"tokens, and the projector gives {sum(map(len, tokens))}"
            )
        return whole_LE.unsqueeze(0)

    def _visual_tokens(self, ref: MediaRef) -> Tensor:
        transform, weight = self._assembled.transform, next(self._model.vision.parameters())
        media = transform.stack([read_item(ref, transform)])
        media = media.to(weight.device, weight.dtype if media.is_floating_point() else None)
        tokens_NE: Tensor = self._model.projector(self._model.vision(media))[0]
        return tokens_NE


def reference_of(
    assembled: Assembled, family: Family | None, *, folder: Path | None, loading: Loading, precise: Precise
) -> Reference:
    """Returns the reference of a model.

    Args:
        assembled: The model.
        family: The family of a model of transformers; None for a model in three parts.
        folder: The folder of the checkpoint, whose processor is read anew; None copies the processor in memory.
        loading: The recipe's settings.
        precise: The precision in which the model answers.
    """
    transform = assembled.transform
    if isinstance(assembled.model, VisionLanguageModel):
        return PartsReference(assembled, assembled.model, precise=precise)
    if isinstance(assembled.model, GenericVlm) and folder is not None:
        processor = read_processor(folder, str(folder))
        return ProcessorReference(assembled, processor, frames="video", precise=precise, writes_answers=True)
    if family is None or not isinstance(transform, ProcessorTransform):
        raise TypeError(f"plain transformers cannot be asked about a {type(assembled.model).__name__}")
    own = folder is not None and family.processor_writes_videos
    processor = read_processor(folder, str(folder)) if folder is not None and own else deepcopy(transform.processor)
    if loading.image_max_pixels is not None:
        size = dict(processor.image_processor.size)
        processor.image_processor.size = {**size, "longest_edge": loading.image_max_pixels * family.image_frames}
    if family.limit_videos is not None:
        reads = assembled.model.of_transformers.config.get_text_config().max_position_embeddings
        family.limit_videos(processor, loading.video_max_pixels, reads)
    frames: FramesAs = "images" if family.video is as_images else "video"
    written = frames if family.processor_writes_videos else None
    return ProcessorReference(assembled, processor, frames=written, precise=precise, writes_answers=False)
