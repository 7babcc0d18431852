"""Asks plain transformers about a checkpoint of any architecture: its chat template writes the whole conversation.

Shape legend: L tokens, T target tokens, N new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import PIL.Image
import torch
from torch import Tensor

from medtune.data.types import Image, Media, Video, require_kind
from medtune.models.contract import Assembled, root_of
from medtune.models.doctor.asked import AskedQuestion, decoded
from medtune.models.doctor.plain_processor import conversation
from medtune.models.doctor.reference import Continued, Told
from medtune.models.sequence.processor_template import ANSWER, QUESTION, TODAY
from medtune.models.tuning.precision import Precise

_MASK = "assistant_masks"


class ConversationReference:
    """The processor of a checkpoint and the model of transformers, with the answer in the conversation.

    The tokens of an answer are those that the template marks as generated, or else all behind the prompt from which a
    reply is generated, up to the end of the turn.

    Args:
        assembled: medtune's side. Of it only the wrapped transformers model and the reading of media files are used.
        processor: The processor as the checkpoint's folder has it, read anew.
        precise: The precision in which the model answers.
    """

    def __init__(self, assembled: Assembled, processor: Any, *, precise: Precise) -> None:
        self._assembled = assembled
        self._processor = processor
        self._precise = precise
        self._whole: Any = assembled.model.of_transformers
        template = processor.chat_template
        self._template = str(template["default"] if isinstance(template, Mapping) else template)
        self._as_text = self._rendered(as_text=False).count(ANSWER) != 1
        self._asked: dict[str, dict[str, Tensor]] = {}

    @property
    def end_id(self) -> int | None:
        """The special token that the chat template writes behind an answer, or else the tokenizer's end of sequence."""
        tokenizer = self._processor.tokenizer
        tail = self._rendered(as_text=self._as_text).partition(ANSWER)[2].strip()
        ids = tokenizer(tail, add_special_tokens=False).input_ids if tail else []
        if ids and ids[0] in {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}:
            return int(ids[0])
        return None if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)

    def ids(self, asked: AskedQuestion) -> tuple[int, ...]:
        """Returns the tokens of a question."""
        return tuple(self._question(asked)["input_ids"][0].tolist())

    def pixels(self, asked: AskedQuestion) -> Mapping[str, Tensor]:
        """Returns all outputs of the processor for a question."""
        return self._question(asked)

    @torch.no_grad()
    def read(self, asked: AskedQuestion, answer: str, /) -> Told:
        """Returns what the transformers model computes for the conversation with the answer.

        Raises:
            ValueError: The conversation with the answer does not begin with the prompt for a reply.
        """
        _, ids, first = self._answered(asked, answer)
        logprob_T = self.learn(asked, answer).cpu()
        return Told(tuple(ids), len(ids) - first, logprob_T, positions=None, from_processor=True)

    def learn(self, asked: AskedQuestion, answer: str, /) -> Tensor:
        """Returns the log-probability of each token of the answer, with its graph of gradients."""
        inputs, ids, first = self._answered(asked, answer)
        with self._precise():
            logits_LV = self._whole(**self._placed(_resized(inputs, ids))).logits[0]
        logprobs_TV = logits_LV[first - 1 : len(ids) - 1].float().log_softmax(-1)
        ids_T = torch.tensor(ids[first:], device=logprobs_TV.device)
        logprob_T: Tensor = logprobs_TV.gather(1, ids_T.unsqueeze(1)).squeeze(1)
        return logprob_T

    def num_targets(self, asked: AskedQuestion, answer: str, /) -> int:
        """Returns the number of tokens of the answer, the end of the turn among them."""
        _, ids, first = self._answered(asked, answer)
        return len(ids) - first

    def _answered(self, asked: AskedQuestion, answer: str) -> tuple[dict[str, Tensor], list[int], int]:
        """Returns the processor's outputs, the tokens up to the end of the answer, and the place of its first token."""
        marks = {"return_assistant_tokens_mask": True} if "endgeneration" in self._template else {}
        inputs = self._written(asked, answer, **marks)
        mask = inputs.pop(_MASK, None)
        ids, context = inputs["input_ids"][0].tolist(), self.ids(asked)
        if tuple(ids[: len(context)]) != context:
            raise ValueError("the conversation with the answer does not begin with the prompt for a reply")
        if mask is None:
            return inputs, self._ended(ids, len(context)), len(context)
        marked = mask[0].nonzero()[:, 0].tolist()
        # A template may mark the answers of the earlier turns too.
        places = [place for place in marked if place >= len(context)] if asked.question.turns else marked
        return inputs, ids[: places[-1] + 1], places[0]

    @torch.no_grad()
    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the reply that transformers' own `generate` gives, without sampling and without penalties."""
        inputs = self._question(asked)
        own = self._whole.generation_config.eos_token_id
        ends = [self.end_id, *(own if isinstance(own, list) else [own])]
        with self._precise():
            made = self._whole.generate(
                **self._placed(inputs),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=[each for each in ends if each in self._assembled.family.stop_ids],
                pad_token_id=self._assembled.family.pad_id,
                return_dict_in_generate=True,
                output_logits=True,
            )
        ids = tuple(made.sequences[0, inputs["input_ids"].shape[1] :].tolist())
        return Continued(ids, torch.cat(made.logits).float().log_softmax(-1).cpu())

    def _ended(self, ids: list[int], first: int) -> list[int]:
        """Returns the tokens up to the end of the turn; where the template writes none, the end behind the answer."""
        end = self.end_id
        if end is None:
            raise ValueError("neither the chat template nor the tokenizer names a token that ends an answer")
        if end in ids[first:]:
            return ids[: ids.index(end, first) + 1]
        last = len(ids)
        while last > first and not self._processor.tokenizer.decode(ids[last - 1 : last]).strip():
            last -= 1
        return [*ids[:last], end]

    def _question(self, asked: AskedQuestion) -> dict[str, Tensor]:
        if asked.question.id not in self._asked:
            self._asked[asked.question.id] = self._written(asked, None)
        return self._asked[asked.question.id]

    def _written(self, asked: AskedQuestion, answer: str | None, **settings: bool) -> dict[str, Tensor]:
        media = [_shown(decoded(ref, self._assembled.transform)) for ref in asked.media]
        how: dict[str, Any] = {}
        for _, settings_of in media:
            for name, value in settings_of.items():
                how[name] = [*how.get(name, []), *value] if isinstance(value, list) else value
        turns = conversation(asked, [[part] for part, _ in media], as_text=self._as_text)
        made = self._processor.apply_chat_template(
            self._told(turns, answer, as_text=self._as_text),
            add_generation_prompt=answer is None,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs=how,
            **settings,
            **self._date(),
        )
        return {name: torch.as_tensor(value) for name, value in made.items()}

    def _rendered(self, *, as_text: bool) -> str:
        asked = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}]
        turns = self._told(asked, ANSWER, as_text=as_text)
        return str(self._processor.apply_chat_template(turns, tokenize=False, **self._date()))

    def _told(self, asked: list[dict[str, Any]], answer: str | None, *, as_text: bool) -> list[dict[str, Any]]:
        if answer is None:
            return asked
        return [*asked, {"role": "assistant", "content": answer if as_text else [{"type": "text", "text": answer}]}]

    def _date(self) -> dict[str, str]:
        return {"date_string": TODAY} if "date_string" in self._template else {}

    def _placed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model = self._assembled.model
        weight = next(p for name, p in model.named_parameters() if root_of(name, model.part_roots)[0] == "vision")
        return {
            name: tensor.to(weight.device, weight.dtype if tensor.is_floating_point() else None)
            for name, tensor in inputs.items()
        }


def _shown(media: Media) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the part of a user's turn that shows a media item, and the arguments that the processor needs for it."""
    if not isinstance(media, Video):
        return {"type": "image", "image": PIL.Image.fromarray(require_kind(media, Image).pixels_HWC)}, {}
    count, lasts_s = len(media.times_s), media.times_s[-1] - media.times_s[0]
    clock = {"total_num_frames": count, "fps": (count - 1) / lasts_s if lasts_s else 1.0}
    how = {"do_sample_frames": False, "video_metadata": [{**clock, "frames_indices": list(range(count))}]}
    return {"type": "video", "video": torch.from_numpy(media.frames_THWC).permute(0, 3, 1, 2)}, how


def _resized(inputs: Mapping[str, Tensor], ids: list[int]) -> dict[str, Tensor]:
    """Returns the outputs of the processor for the beginning of a conversation, or for one token more than it has."""
    length = inputs["input_ids"].shape[1]
    made = {"input_ids": torch.tensor([ids])}
    for name, tensor in inputs.items():
        if name != "input_ids":
            tokens = tensor.dim() == 2 and tensor.shape[1] == length
            longer = torch.cat([tensor, tensor[:, -1:]], dim=1) if tokens else tensor
            made[name] = longer[:, : len(ids)] if tokens else longer
    return made
