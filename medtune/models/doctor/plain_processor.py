"""Asks plain transformers about a question: its processor writes it, its model reads it. The weights are shared.

Shape legend: L tokens, T target tokens, N new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import PIL.Image
import torch
from torch import Tensor

from medtune.data.types import Image, Video, Volume, require_kind
from medtune.models.contract import Assembled, root_of
from medtune.models.doctor.asked import AskedQuestion, decoded, end_ids, laid_out
from medtune.models.doctor.reference import Continued, Told, as_positions, watched_positions
from medtune.models.sequence.conversation import user_turns
from medtune.models.sequence.processor_template import ANSWER, QUESTION, TODAY
from medtune.models.tuning.precision import Precise

FramesAs = Literal["video", "images"]
"""The way in which a conversation shows the frames of a video: as one video, or as so many images."""
_MEDIA = ("pixel", "image_", "video_", "aspect_", "batch_num")


class ProcessorReference:
    """The processor of a checkpoint and the model of transformers that medtune wraps, used as their own users would.

    Args:
        assembled: medtune's side. Of it only the wrapped transformers model and the reading of media files are used;
            where the processor does not write videos, its layout and its pixels of them too.
        processor: The processor as the checkpoint's folder has it, read anew.
        frames: How frames are shown; None where the processor does not write videos as the model reads them.
        precise: The precision in which the model answers.
    """

    def __init__(self, assembled: Assembled, processor: Any, *, frames: FramesAs | None, precise: Precise) -> None:
        self._assembled = assembled
        self._processor = processor
        self._frames = frames
        self._precise = precise
        self._whole: Any = assembled.model.of_transformers
        self._asked: dict[str, Mapping[str, Tensor]] = {}

    @property
    def end_id(self) -> int | None:
        """The special token that the chat template writes behind an answer, or else the tokenizer's end of sequence."""
        tokenizer = self._processor.tokenizer
        asked = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
        tail = self._rendered(asked, ANSWER).partition(ANSWER)[2].strip()
        ids = tokenizer(tail, add_special_tokens=False).input_ids if tail else []
        if ids and ids[0] in {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}:
            return int(ids[0])
        return None if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)

    def ids(self, asked: AskedQuestion) -> tuple[int, ...] | None:
        """Returns the tokens of a question; None where the processor does not write its video."""
        if not self._writes(asked):
            return None
        return tuple(self._inputs(asked)["input_ids"][0].tolist())

    def pixels(self, asked: AskedQuestion) -> Mapping[str, Tensor] | None:
        """Returns the processor's outputs beside the tokens; None where it does not write the question's video."""
        if not self._writes(asked):
            return None
        return {name: tensor for name, tensor in self._inputs(asked).items() if name.startswith(_MEDIA)}

    @torch.no_grad()
    def read(self, asked: AskedQuestion, answer: str, /) -> Told:
        """Returns what the transformers model computes for the question with the answer."""
        ids, target = self._target(asked, answer)
        with watched_positions(self._assembled.model) as seen:
            logprob_T = self.learn(asked, answer)
        return Told(
            ids=(*ids, *target),
            num_answer=len(target),
            logprob_T=logprob_T.cpu(),
            positions=as_positions(seen),
            from_processor=self._writes(asked),
        )

    def learn(self, asked: AskedQuestion, answer: str, /) -> Tensor:
        """Returns the log-probability of each token of the answer, with its graph of gradients."""
        inputs = self._inputs(asked)
        ids, target = self._target(asked, answer)
        whole = {name: _longer(name, tensor, target, inputs) for name, tensor in inputs.items()}
        with self._precise():
            logits_LV = self._whole(**self._placed(whole)).logits[0]
        logprobs_TV = logits_LV[len(ids) - 1 : -1].float().log_softmax(-1)
        ids_T = torch.tensor(target, device=logprobs_TV.device)
        logprob_T: Tensor = logprobs_TV.gather(1, ids_T.unsqueeze(1)).squeeze(1)
        return logprob_T

    def num_targets(self, asked: AskedQuestion, answer: str, /) -> int:
        """Returns the number of tokens of the answer, the end of the turn among them."""
        return len(self._target(asked, answer)[1])

    def _target(self, asked: AskedQuestion, answer: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the tokens of the question and those of the answer."""
        inputs = self._inputs(asked)
        return tuple(inputs["input_ids"][0].tolist()), self._answer_ids(asked, answer)

    @torch.no_grad()
    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the reply that transformers' own `generate` gives, without sampling and without penalties."""
        inputs = self._inputs(asked)
        with self._precise():
            made = self._whole.generate(
                **self._placed(inputs),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=list(dict.fromkeys((self.end_id, *end_ids(self._assembled.family)))),
                pad_token_id=self.end_id,
                return_dict_in_generate=True,
                output_logits=True,
            )
        ids = tuple(made.sequences[0, inputs["input_ids"].shape[1] :].tolist())
        return Continued(ids, torch.cat(made.logits).float().log_softmax(-1).cpu())

    def _writes(self, asked: AskedQuestion) -> bool:
        return all(ref.kind == "image" for ref in asked.media) or self._frames is not None

    def _inputs(self, asked: AskedQuestion) -> Mapping[str, Tensor]:
        """Returns the processor's outputs for a question up to the place where the answer begins."""
        if asked.question.id not in self._asked:
            self._asked[asked.question.id] = self._written(asked) if self._writes(asked) else self._unwritten(asked)
        return self._asked[asked.question.id]

    def _written(self, asked: AskedQuestion) -> Mapping[str, Tensor]:
        media = [decoded(ref, self._assembled.transform) for ref in asked.media]
        if all(isinstance(item, Image) for item in media):
            parts = [[{"type": "image", "image": picture} for picture in _pictures(item)] for item in media]
            made = self._processor.apply_chat_template(
                conversation(asked, parts), add_generation_prompt=True, tokenize=True, return_dict=True,
                return_tensors="pt", **self._date(),
            )  # fmt: skip
            return dict(made)
        as_videos = [item for item in media if isinstance(item, Video) and self._frames != "images"]
        pictures = [picture for item in media if item not in as_videos for picture in _pictures(item)]
        shown = [
            [{"type": "video"}] if item in as_videos else [{"type": "image"}] * len(_pictures(item)) for item in media
        ]
        text = self._rendered(conversation(asked, shown), None)
        given: dict[str, Any] = {"images": [pictures]} if pictures else {}
        if as_videos:
            frames = [torch.from_numpy(item.frames_THWC).permute(0, 3, 1, 2) for item in as_videos]
            given |= {"videos": frames, "video_metadata": list(map(_clock, as_videos)), "do_sample_frames": False}
        return dict(self._processor(text=[text], return_tensors="pt", **given, **self._opened(text)))

    def _unwritten(self, asked: AskedQuestion) -> Mapping[str, Tensor]:
        """Returns medtune's own tokens and pixels, with which transformers' forward can still be compared."""
        transform = self._assembled.transform
        if len(asked.media) != 1:
            raise ValueError("videos beside other media are not written by the processor, and cannot be compared")
        layout = laid_out(asked, None, self._assembled.family, transform)
        return {"input_ids": torch.tensor([layout.ids]), **transform(decoded(asked.media[0], transform))}

    def _answer_ids(self, asked: AskedQuestion, answer: str) -> tuple[int, ...]:
        """Returns the tokens of an answer and of the end of its turn, as they stand behind the question's."""
        tokenizer = self._processor.tokenizer
        question = conversation(asked, [[] for _ in asked.media])
        open_text, whole_text = self._rendered(question, None), self._rendered(question, answer)
        lead = ""
        if whole_text.startswith(open_text):
            lead = whole_text.removeprefix(open_text).partition(answer)[0]
        opened = self._opened(open_text)
        before = tokenizer(open_text, **opened).input_ids
        joined = tokenizer(open_text + lead + answer, **opened).input_ids
        alone = tokenizer(lead + answer, add_special_tokens=False).input_ids
        target = joined[len(before) :] if joined[: len(before)] == before else alone
        if self.end_id is None:
            raise ValueError("neither the chat template nor the tokenizer names a token that ends an answer")
        return (*target, self.end_id)

    def _rendered(self, asked: list[dict[str, Any]], answer: str | None) -> str:
        told = [] if answer is None else [{"role": "assistant", "content": [{"type": "text", "text": answer}]}]
        turns = [*asked, *told]
        return str(
            self._processor.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=answer is None, **self._date()
            )
        )

    def _date(self) -> dict[str, str]:
        return {"date_string": TODAY} if "date_string" in (self._processor.chat_template or "") else {}

    def _opened(self, text: str) -> dict[str, bool]:
        """Returns the tokenizer's setting by which a text that begins with the opening token gets no second one."""
        bos = self._processor.tokenizer.bos_token
        return {"add_special_tokens": not (bos is not None and text.startswith(bos))}

    def _placed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model = self._assembled.model
        weight = next(p for name, p in model.named_parameters() if root_of(name, model.part_roots)[0] == "vision")
        return {
            name: tensor.to(weight.device, weight.dtype if tensor.is_floating_point() else None)
            for name, tensor in inputs.items()
        }


def conversation(
    asked: AskedQuestion, shown: Sequence[list[dict[str, Any]]], *, as_text: bool = False
) -> list[dict[str, Any]]:
    """Returns the turns of a conversation up to the question, as chat templates take them.

    Args:
        asked: The question with the turns before it.
        shown: For each media item the parts of a turn that show it.
        as_text: Whether the answers of earlier turns are given as text instead of a list of parts.
    """
    turns: list[dict[str, Any]] = []
    earlier = asked.question.turns
    answers = [*(turn.answer for turn in earlier), None]
    for pieces, answer in zip(user_turns(asked.prompt.text, earlier, num_items=len(shown)), answers, strict=True):
        content = [
            part
            for piece in pieces
            for part in ([{"type": "text", "text": piece}] if isinstance(piece, str) else shown[piece])
        ]
        turns.append({"role": "user", "content": content})
        if answer is not None:
            turns.append({"role": "assistant", "content": answer if as_text else [{"type": "text", "text": answer}]})
    return turns


def _pictures(media: Image | Video | Volume) -> list[PIL.Image.Image]:
    frames = media.frames_THWC if isinstance(media, Video) else require_kind(media, Image).pixels_HWC[None]
    return [PIL.Image.fromarray(frame_HWC) for frame_HWC in frames]


def _clock(video: Video) -> dict[str, Any]:
    count, lasts_s = len(video.times_s), video.times_s[-1] - video.times_s[0]
    # A clip of one frame has no rate; the processors then take one frame a second.
    rate = (count - 1) / lasts_s if lasts_s else 1.0
    return {"total_num_frames": count, "fps": rate, "frames_indices": list(range(count))}


def _longer(name: str, tensor: Tensor, target: tuple[int, ...], inputs: Mapping[str, Tensor]) -> Tensor:
    """Returns an output of the processor for a sequence with the target behind it, which is text."""
    if name == "input_ids":
        return torch.cat([tensor, torch.tensor([target])], dim=1)
    if name.startswith(_MEDIA) or tensor.dim() < 2 or tensor.shape[1] != inputs["input_ids"].shape[1]:
        return tensor
    # The last token of a question is text too, so that what holds for it holds for the answer.
    return torch.cat([tensor, tensor[:, -1:].repeat(1, len(target), *[1] * (tensor.dim() - 2))], dim=1)
