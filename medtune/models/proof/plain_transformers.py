"""Plain transformers' side of a proof: a model with its processor, or the language model of three parts.

No transformers class exists for a model in three parts: its language model is asked with medtune's own sequence of
tokens and with embeddings put in by hand; rows, trees, masks, positions and caches are transformers' own.

Shape legend: L tokens, E embedding width, N visual tokens, V vocabulary.
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import PIL.Image
import torch
from torch import Tensor

from medtune.data.types import Image, Media, MediaRef, Video, require_kind
from medtune.models.contract import Assembled, root_of
from medtune.models.media_reader import read_item
from medtune.models.proof.plain_reader import logprobs_from, longer
from medtune.models.proof.questions import AskedQuestion, decoded, laid_out
from medtune.models.proof.reference import Continued, Reference
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.builder import user_turns
from medtune.models.sequence.chat_template import ANSWER, QUESTION, set_date, set_thinking
from medtune.models.transformers_vlm.conversation import clocked, marks_prefix
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.loading import read_processor
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.tuning.quantize import Precise
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import Loading

FramesAs = Literal["video", "images"]
"""The way in which a conversation shows the frames of a video: as one video, or as so many images."""
Part = dict[str, Any]
_PROBE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}]
_MASK = "assistant_masks"


class ProcessorReference:
    """The processor of a checkpoint and the model of transformers that medtune wraps, used as their own users would.

    Args:
        assembled: medtune's side. Of it only the wrapped transformers model and the reading of media files are used;
            where the processor does not write videos, its layout and its pixels of them too.
        processor: The processor as the checkpoint's folder has it, read anew.
        frames: How frames are shown; None where the processor does not write videos as the model reads them.

    The processor writes the whole conversation with the answer. The tokens of an answer are those that the template
    marks as generated, or else all behind the prompt from which a reply is generated; the end of the turn is the last.
    """

    def __init__(self, assembled: Assembled, processor: Any, *, frames: FramesAs | None, precise: Precise) -> None:
        self._assembled = assembled
        self._model: Any = assembled.model
        self.processor = processor
        self._frames = frames
        self._precise = precise
        template = processor.chat_template
        self._template = str(template["default"] if isinstance(template, Mapping) else template)
        self._as_text = False
        # Some templates take the assistant's turn as text alone.
        self._as_text = self._rendered(_PROBE, ANSWER).count(ANSWER) != 1
        self._asked: dict[str, dict[str, Tensor]] = {}

    @property
    def end_id(self) -> int | None:
        """The special token that the chat template writes behind an answer, or else the tokenizer's end of sequence."""
        tokenizer = self.processor.tokenizer
        tail = self._rendered(_PROBE, ANSWER).partition(ANSWER)[2].strip()
        ids = tokenizer(tail, add_special_tokens=False).input_ids if tail else []
        if ids and ids[0] in {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}:
            return int(ids[0])
        return None if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)

    def ids(self, asked: AskedQuestion) -> tuple[int, ...] | None:
        """Returns the tokens of a question; None where the processor does not write its video."""
        return tuple(self._inputs(asked)["input_ids"][0].tolist()) if self._writes(asked) else None

    def pixels(self, asked: AskedQuestion) -> Mapping[str, Tensor] | None:
        """Returns the processor's outputs; None where it does not write the question's video."""
        return self._inputs(asked) if self._writes(asked) else None

    def logprobs(self, asked: AskedQuestion, answer: str, /) -> Tensor:
        """Returns the log-probability of each token of the answer, with its graph of gradients."""
        whole, first = self._with_answer(asked, answer)
        if marks_prefix(self.processor):
            whole["token_type_ids"] = (torch.arange(whole["input_ids"].shape[1]) >= first).long().unsqueeze(0)
        with self._precise():
            logits_LV = self._model.of_transformers(**self._placed(whole)).logits[0]
        return logprobs_from(logits_LV, whole["input_ids"][0].tolist(), first)

    @torch.no_grad()
    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the reply that transformers' own `generate` gives, without sampling and without penalties."""
        inputs, end = self._inputs(asked), self._end()
        with self._precise():
            made = self._model.of_transformers.generate(
                **self._placed(inputs),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=list(dict.fromkeys((end, *self._assembled.template.stop_ids))),
                pad_token_id=end,
                return_dict_in_generate=True,
                output_logits=True,
            )
        ids = tuple(made.sequences[0, inputs["input_ids"].shape[1] :].tolist())
        return Continued(ids, torch.cat(made.logits).float().log_softmax(-1).cpu())

    def _writes(self, asked: AskedQuestion) -> bool:
        return all(ref.kind == "image" for ref in asked.files) or self._frames is not None

    def _inputs(self, asked: AskedQuestion) -> dict[str, Tensor]:
        if asked.question.id not in self._asked:
            self._asked[asked.question.id] = (
                self._written(asked, None) if self._writes(asked) else self._unwritten(asked, self._layout(asked, None))
            )
        return self._asked[asked.question.id]

    def _written(self, asked: AskedQuestion, answer: str | None, **settings: bool) -> dict[str, Tensor]:
        media = [_media_parts(decoded(ref, self._assembled.transform), self._frames) for ref in asked.files]
        how: dict[str, Any] = {}
        for _, settings_of in media:
            for name, value in settings_of.items():
                how[name] = [*how.get(name, []), *value] if isinstance(value, list) else value
        made = self.processor.apply_chat_template(
            self._answered(self._conversation(asked, [parts for parts, _ in media]), answer),
            add_generation_prompt=answer is None,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs=clocked(self.processor, how),
            **settings,
        )
        return {name: torch.as_tensor(value) for name, value in made.items()}

    def _layout(self, asked: AskedQuestion, answer: str | None) -> Layout:
        return laid_out(asked, answer, self._assembled.template, self._assembled.transform)

    def _unwritten(self, asked: AskedQuestion, layout: Layout) -> dict[str, Tensor]:
        transform = self._assembled.transform
        if len(asked.media) != 1:
            raise ValueError("videos beside other media are not written by the processor, and cannot be compared")
        return {"input_ids": torch.tensor([layout.ids]), **transform(decoded(asked.media[0], transform))}

    def _with_answer(self, asked: AskedQuestion, answer: str) -> tuple[dict[str, Tensor], int]:
        if not self._writes(asked):
            layout = self._layout(asked, answer)
            return self._unwritten(asked, layout), len(layout.ids) - layout.num_targets
        marks = {"return_assistant_tokens_mask": True} if "endgeneration" in self._template else {}
        inputs = self._written(asked, answer, **marks)
        mask = inputs.pop(_MASK, None)
        ids, context = inputs["input_ids"][0].tolist(), self.ids(asked) or ()
        if tuple(ids[: len(context)]) != context:
            # Such as LLaVA-OneVision's, whose template writes a blank in front of an answer and none for a reply.
            return self._behind_prompt(asked, answer), len(context)
        if mask is None:
            return _resized(inputs, self._ended(ids, len(context))), len(context)
        marked = mask[0].nonzero()[:, 0].tolist()
        # A template may mark the answers of the earlier turns too.
        places = [place for place in marked if place >= len(context)] if asked.question.turns else marked
        return _resized(inputs, self._ended(ids[: places[-1] + 1], places[0])), places[0]

    def _behind_prompt(self, asked: AskedQuestion, answer: str) -> dict[str, Tensor]:
        prompt = self._rendered(self._conversation(asked, [[] for _ in asked.media]), None)
        before, joined = (self.processor.tokenizer(text).input_ids for text in (prompt, prompt + answer))
        return longer(self._inputs(asked), (*joined[len(before) :], self._end()))

    def _ended(self, ids: list[int], first: int) -> list[int]:
        end = self._end()
        if end in ids[first:]:
            return ids[: ids.index(end, first) + 1]
        last = len(ids)
        while last > first and not self.processor.tokenizer.decode(ids[last - 1 : last]).strip():
            last -= 1
        return [*ids[:last], end]

    def _end(self) -> int:
        if (end := self.end_id) is None:
            raise ValueError("neither the chat template nor the tokenizer names a token that ends an answer")
        return end

    def _conversation(self, asked: AskedQuestion, shown: list[list[Part]]) -> list[Part]:
        turns: list[Part] = []
        earlier = asked.question.turns
        answers = [*(turn.answer for turn in earlier), None]
        for pieces, answer in zip(user_turns(asked.prompt.text, earlier, num_items=len(shown)), answers, strict=True):
            content = [
                part
                for piece in pieces
                for part in ([{"type": "text", "text": piece}] if isinstance(piece, str) else shown[piece])
            ]
            turns = self._answered([*turns, {"role": "user", "content": content}], answer)
        return turns

    def _answered(self, turns: list[Part], answer: str | None) -> list[Part]:
        if answer is None:
            return turns
        content: Any = answer if self._as_text else [{"type": "text", "text": answer}]
        return [*turns, {"role": "assistant", "content": content}]

    def _rendered(self, turns: list[Part], answer: str | None) -> str:
        told = self._answered(turns, answer)
        return str(self.processor.apply_chat_template(told, tokenize=False, add_generation_prompt=answer is None))

    def _placed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model = self._assembled.model
        weight = next(p for name, p in model.named_parameters() if root_of(name, model.part_roots)[0] == "vision")
        return {
            name: tensor.to(weight.device, weight.dtype if tensor.is_floating_point() else None)
            for name, tensor in inputs.items()
        }


def _media_parts(media: Media, frames: FramesAs | None) -> tuple[list[Part], dict[str, Any]]:
    if not isinstance(media, Video) or frames == "images":
        pictures = media.frames_THWC if isinstance(media, Video) else require_kind(media, Image).pixels_HWC[None]
        return [{"type": "image", "image": PIL.Image.fromarray(each_HWC)} for each_HWC in pictures], {}
    count, lasts_s = len(media.times_s), media.times_s[-1] - media.times_s[0]
    # A clip of one frame has no rate; the processors then take one frame a second.
    clock = {"total_num_frames": count, "fps": (count - 1) / lasts_s if lasts_s else 1.0}
    how = {"do_sample_frames": False, "video_metadata": [{**clock, "frames_indices": list(range(count))}]}
    return [{"type": "video", "video": torch.from_numpy(media.frames_THWC).permute(0, 3, 1, 2)}], how


def _resized(inputs: Mapping[str, Tensor], ids: list[int]) -> dict[str, Tensor]:
    length = inputs["input_ids"].shape[1]
    made = {"input_ids": torch.tensor([ids])}
    for name, tensor in inputs.items():
        if name != "input_ids":
            tokens = tensor.dim() == 2 and tensor.shape[1] == length
            made[name] = torch.cat([tensor, tensor[:, -1:]], dim=1)[:, : len(ids)] if tokens else tensor
    return made


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
        layout = laid_out(asked, answer, self._assembled.template, self._assembled.transform)
        language: Any = self._model.language
        with self._precise():
            logits_LV = language(inputs_embeds=self._embedded(asked, layout)).logits[0]
        return logprobs_from(logits_LV, layout.ids, len(layout.ids) - layout.num_targets)

    @torch.no_grad()
    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the greedy reply, for which the whole sequence is read anew for every token, without a cache."""
        layout = laid_out(asked, None, self._assembled.template, self._assembled.transform)
        language: Any = self._model.language
        said: list[int] = []
        seen: list[Tensor] = []
        with self._precise():
            embedded = self._embedded(asked, layout)
            for _ in range(max_new_tokens):
                logits_V = language(inputs_embeds=embedded, use_cache=False).logits[0, -1]
                seen.append(logits_V.float().log_softmax(-1).cpu())
                said.append(int(logits_V.argmax()))
                if said[-1] in self._assembled.template.stop_ids:
                    break
                last = torch.tensor([[said[-1]]], device=embedded.device)
                embedded = torch.cat([embedded, self._model.language.get_input_embeddings()(last)], dim=1)
        return Continued(tuple(said), torch.stack(seen))

    def _embedded(self, asked: AskedQuestion, layout: Layout) -> Tensor:
        device = next(self._model.parameters()).device
        tokens = [self._visual_tokens(ref) for ref in asked.files]
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


def _processor(folder: Path, loading: Loading) -> Any:
    processor = read_processor(folder, str(folder))
    set_thinking(processor, loading.thinking)
    set_date(processor)
    return processor


def reference_of(
    assembled: Assembled, family: Family | None, *, folder: Path | None, loading: Loading, precise: Precise
) -> Reference:
    """Returns the reference of a model.

    Args:
        folder: The folder of the checkpoint, whose processor is read anew; None copies the processor in memory.
    """
    transform = assembled.transform
    if isinstance(assembled.model, VisionLanguageModel):
        return PartsReference(assembled, assembled.model, precise=precise)
    if isinstance(assembled.model, GenericVlm) and folder is not None:
        processor = _processor(folder, loading)
        return ProcessorReference(assembled, processor, frames="video", precise=precise)
    if family is None or not isinstance(transform, ProcessorTransform):
        raise TypeError(f"plain transformers cannot be asked about a {type(assembled.model).__name__}")
    own = folder is not None and family.processor_writes_videos
    processor = _processor(folder, loading) if folder is not None and own else deepcopy(transform.processor)
    if loading.image_max_pixels is not None:
        size = dict(processor.image_processor.size)
        processor.image_processor.size = {**size, "longest_edge": loading.image_max_pixels * family.image_frames}
    if family.limit_videos is not None:
        reads = assembled.model.of_transformers.config.get_text_config().max_position_embeddings
        family.limit_videos(processor, loading.video_max_pixels, reads)
    frames: FramesAs = "images" if family.frames_as_images else "video"
    written = frames if family.processor_writes_videos else None
    return ProcessorReference(assembled, processor, frames=written, precise=precise)
