"""Asks the language model of a model in three parts through plain transformers, with embeddings put in by hand.

No transformers class exists for such a model, so nothing else can be asked. The sequence of tokens is medtune's; rows,
trees, masks, positions and caches are transformers' own.

Shape legend: L tokens, E embedding width, N visual tokens, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from medtune.data.types import MediaRef
from medtune.models.contract import Assembled
from medtune.models.doctor.asked import AskedQuestion, laid_out
from medtune.models.doctor.reference import Continued
from medtune.models.media_item import read_item
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.tuning.precision import Precise
from medtune.models.vlm import VisionLanguageModel
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
