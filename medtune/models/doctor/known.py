"""Compares a checkpoint's folder with facts recorded about its architecture, because both sides of a proof read it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from medtune.models.contract import Assembled
from medtune.models.doctor.find_reference import ProcessorReference
from medtune.models.doctor.reference import Check, Finding, Reference, checked
from medtune.models.sequence.packing import pad_left
from medtune.models.tuning.quantize import Precise, logical_size

Pair = tuple[tuple[float, ...], tuple[float, ...]]
CLIP: Pair = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF: Pair = (0.5,) * 3, (0.5,) * 3
IMAGENET: Pair = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Means and standard deviations of towers. Source: those of CLIP, SigLIP and ImageNet in transformers.image_utils."""
CHATML, LLAMA3, GEMMA = ("<|im_start|>", "<|im_end|>"), ("<|start_header_id|>", "<|eot_id|>"), ("<start_of_turn>",)
VICUNA, INSTRUCT, GLM = ("USER:", "ASSISTANT:"), ("[INST]", "[/INST]"), ("<|user|>", "<|assistant|>")
"""What a template writes around the turns of a conversation."""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about an architecture that its vendors' checkpoints share."""

    # Mean and standard deviation of the prepared pixels; None where they depend on LLaVA's tower or are not recorded.
    pixels: Pair | None = None
    # The bases of the rotary embeddings, one for each kind of layer; none where vendors' differ.
    thetas: tuple[float, ...] = ()
    # What the template writes around turns, in one of these ways; none where vendors' differ.
    turns: tuple[tuple[str, ...], ...] = ()
    # The ways in which vendors stretch the rotary embeddings, beside not at all, with the factor; 0 is any factor.
    stretched: Mapping[str, float] = field(default_factory=dict)


_YARN = {"yarn": 0.0}
"""The cards of Qwen's models say how to write it into config.json for texts that are longer than those of training."""
_QWEN2 = Known(CLIP, (1e6,), (CHATML,), _YARN)
_QWEN3 = Known(HALF, (5e6,), (CHATML,), _YARN)
_QWEN35 = Known(HALF, (1e7,), (CHATML,), _YARN)
KNOWN: Mapping[str, Known] = {
    "qwen2_vl": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "qwen3_5": _QWEN35,
    "qwen3_5_moe": _QWEN35,
    "qwen2_5_omni_thinker": _QWEN2,
    "qwen3_omni_moe_thinker": Known(HALF, (1e6,), (CHATML,), _YARN),
    "mllama": Known(CLIP, (5e5,), (LLAMA3,), {"llama3": 8.0}),
    "gemma3": Known(HALF, (1e4, 1e6), (GEMMA,), {"linear": 8.0}),
    "glm4v": Known(CLIP, (1e4,), (GLM,)),
    "glm46v": Known(CLIP, (), (GLM,)),
    "glm4v_moe": Known(CLIP, (1e4,), (GLM,)),
    "internvl": Known(IMAGENET, (), (CHATML, GLM), {"dynamic": 2.0, "longrope": 0.0}),
    "llava_onevision": Known(HALF, (1e6,), (CHATML,)),
    "llava_next_video": Known(CLIP, (), (VICUNA, INSTRUCT, CHATML)),
    "llava_next": Known(CLIP, (), (VICUNA, INSTRUCT, CHATML, LLAMA3), {"llama3": 8.0}),
    "llava": Known(None, (), (VICUNA, INSTRUCT, CHATML, LLAMA3), {"llama3": 8.0}),
    "mistral3": Known(CLIP, (), (INSTRUCT,), _YARN),
    "idefics3": Known(HALF, (), (("User:", "Assistant:"),)),
    "smolvlm": Known(HALF, (), (("User:", "Assistant:"),)),
    "paligemma": Known(HALF),
    "lfm2_vl": Known(HALF, (1e6,), (CHATML,)),
    "ovis2": Known(CLIP, (), (CHATML,), _YARN),
    "deepseek_vl": Known(),
    "cohere2_vision": Known(),
    "minicpmv4_6": Known(HALF, (1e7,), (CHATML,), _YARN),
    "gemma3n": Known(None, (1e4, 1e6), (GEMMA,)),
    "phi4_multimodal": Known(HALF, (1e4,), (GLM,), {"longrope": 0.0}),
    "gemma4": Known(None, (1e4, 1e6), (), {"proportional": 0.0}),
}
"""By `model_type`.

Source: config.json, preprocessor_config.json and chat_template of the instruct checkpoints of Qwen/Qwen2-VL-*,
Qwen2.5-VL-*, Qwen3-VL-*, Qwen3.5-*, meta-llama/Llama-3.2-*-Vision-Instruct, google/gemma-3-*-it, zai-org/GLM-4.1V-9B,
OpenGVLab/InternVL3-*-hf and llava-hf. The bases of Qwen2-VL, Qwen2.5-VL, Mllama, Gemma 3 and GLM-4V and the pixels of
Qwen-VL, GLM-4V, Gemma 3, Pixtral and Idefics 3 are the defaults of transformers 5.23 too; those of Qwen3-VL and Qwen3.5
stand in public copies of their config.json, as do those of Mistral Small 3.1 (1e9), InternVL2.5 with Qwen2 and with
InternLM2 (1e6), InternLM3 (5e7), GLM-4.5V (1e4) and Phi-4-multimodal (1e4), and the pixels of LLaVA-OneVision and Llama
3.2 Vision in public copies of their preprocessor_config.json. The bases of Qwen2.5-Omni, Qwen3-Omni, Phi-3, LFM2-VL,
Gemma, Gemma 2, Gemma 3n, Gemma 4 and DeepSeek-VL are transformers' defaults. The rest, the factors of stretched
embeddings among it, was written down from the vendors' files without a second look.
"""
_OF_TOWER = {"clip_vision_model": CLIP, "siglip_vision_model": HALF, "pixtral": CLIP, "intern_vit": IMAGENET}
_OF_TEXT = {
    "qwen2": (1e6,),
    "qwen3": (1e6,),
    "mistral": (1e6, 1e4, 1e9),
    "llama": (1e4, 5e5, 1e6, 5e6, 5e7),
    "phi3": (1e4,),
    "gemma": (1e4,),
    "gemma2": (1e4,),
    "glm4v_text": (1e4, 5e5),
    "cohere2": (5e4, 1e4),
}
"""The bases of language models of which an architecture takes several.

Vicuna, Llama 3, InternLM2 and 3 and Yi are llamas; Yi's base is that of InternLM/InternEvo-HFModels,
huggingface_model/yi/yi_6B/configuration_yi.py (5e6).
"""
_TURNS_OF_TEXT = {
    "llama": (VICUNA, CHATML, LLAMA3),
    "mistral": (INSTRUCT, VICUNA),
    "qwen2": (CHATML,),
    "qwen3": (CHATML,),
    "phi3": (GLM,),
}
"""The turns of LLaVA's and InternVL's language models, if of an architecture; of Mistral's two, BakLLaVA has Vicuna's.

Phi-3's tokens of turns are called like GLM's.
"""
_CONTROL = re.compile(r"<\|[\w ]+\|>|<(?:start|end)_of_\w+>|\[/?INST\]")
PLAIN = (
    "The heart is a muscle that pumps blood through the body. Blood carries oxygen from the lungs to all organs, and "
    "carries carbon dioxide back to the lungs, where it leaves the body with the breath."
)
REAL = 100_000_000
"""Number of weights of a language model from which on they are taken for learnt ones."""
ASKED = "Is water wet? Answer with yes or no."
MOST_TOKENS = 64
"""Length of the longest reply to `ASKED`, in tokens."""
ABOVE = 2.0
"""Natural logarithm of how much likelier than chance a token of plain text is at least; learnt models reach 6."""


NAMES = ("normalisation", "rope", "control tokens", "vocabulary", "plain text", "replies end")


def known_checks(assembled: Assembled, reference: Reference, precise: Precise) -> tuple[Check, ...]:
    """Returns the checks of the folder's facts; they do not apply to models without a processor of their own."""
    if not isinstance(reference, ProcessorReference):
        why = "the model has no processor of its own; its parts are compared with recorded values by medtune's tests"
        return tuple(Check(name, None, why) for name in NAMES)
    whole, asks = assembled.model.of_transformers, reference
    known = KNOWN.get(whole.config.model_type, Known())
    looks = (
        lambda: _normalisation(whole.config, asks.processor, known),
        lambda: _rope(whole.config, known),
        lambda: _control_tokens(asks, _turns(known, whole.config.get_text_config().model_type)),
        lambda: _vocabulary(whole, asks.processor),
        lambda: _plain_text(assembled, asks.processor.tokenizer, precise),
        lambda: _replies_end(assembled, precise),
    )
    return tuple(checked(name, look) for name, look in zip(NAMES, looks, strict=True))


def _normalisation(config: Any, processor: Any, known: Known) -> Finding:
    images = processor.image_processor
    if not getattr(images, "do_normalize", False):
        return None, "the processor does not normalise pixels"
    mine = tuple(images.image_mean), tuple(images.image_std)
    tower = getattr(getattr(config, "vision_config", None), "model_type", None)
    wanted = known.pixels or (_OF_TOWER.get(str(tower)) if config.model_type == "llava" else None)
    usual = tuple(type(images).image_mean or ()), tuple(type(images).image_std or ())
    said = f"mean {_shown(mine[0])}, standard deviation {_shown(mine[1])}"
    if _equal(mine, wanted or usual):
        return True, f"{said}, as {'recorded for' if wanted else 'usual for the processor of'} {config.model_type}"
    if wanted is not None:
        return False, f"{said}; checkpoints of {config.model_type} have {_shown(wanted[0])} and {_shown(wanted[1])}"
    if any(_equal(mine[::-1], pair) for pair in (CLIP, IMAGENET)):
        return False, f"{said}: they stand in each other's place"
    return None, f"{said}; none is recorded for {config.model_type}"


def _equal(one: Pair, other: Pair) -> bool:
    return len(one[0]) == len(other[0]) and torch.allclose(torch.tensor(one), torch.tensor(other), rtol=0, atol=1e-3)


def _shown(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _rope(config: Any, known: Known) -> Finding:
    text = config.get_text_config()
    mine = tuple(sorted(set(_thetas(getattr(text, "rope_parameters", None)))))
    wanted, one_of = known.thetas, False
    if not wanted and config.model_type in KNOWN:
        wanted, one_of = _OF_TEXT.get(text.model_type, ()), True
    if not mine or not wanted:
        return None, f"no rotary base is recorded for {config.model_type} with {text.model_type}"
    if not (set(mine) <= set(wanted) if one_of else mine == tuple(sorted(wanted))):
        return False, (
            f"the rotary base is {_listed(mine)}, and checkpoints of {config.model_type} have {_listed(wanted)}; "
            "was config.json changed?"
        )
    for kind, factor in _stretches(text.rope_parameters):
        usual = known.stretched.get(kind, None if kind == "default" else -1.0)
        if usual and factor != usual:
            ways = [f"{name} with {each:g}" if each else name for name, each in known.stretched.items()]
            return False, (
                f"rotary embeddings are stretched ({kind} with {factor:g}), and those of {config.model_type} are "
                f"{' or '.join(['not', *ways])}; was config.json changed?"
            )
    return True, f"the rotary base is {_listed(mine)}, as recorded for {config.model_type}"


def _stretches(told: Any) -> Iterator[tuple[str, float]]:
    if isinstance(told, Mapping):
        if "rope_type" in told:
            yield str(told["rope_type"]), float(told.get("factor") or 1.0)
        for value in told.values():
            yield from _stretches(value)


def _thetas(told: Any) -> Iterator[float]:
    if isinstance(told, Mapping):
        if told.get("rope_theta") is not None:
            yield float(told["rope_theta"])
        for value in told.values():
            yield from _thetas(value)


def _listed(thetas: tuple[float, ...]) -> str:
    return " or ".join(f"{theta:g}" for theta in thetas)


def _turns(known: Known, text: str) -> tuple[tuple[str, ...], ...]:
    """Returns the ways of writing turns that go with a language model, of those of an architecture that has several."""
    left = tuple(each for each in known.turns if each in _TURNS_OF_TEXT.get(text, known.turns))
    return left or known.turns


def _control_tokens(asks: ProcessorReference, known: tuple[tuple[str, ...], ...]) -> Finding:
    text, tokenizer = asks.conversation(), asks.processor.tokenizer
    vocabulary = tokenizer.get_vocab()
    for token in dict.fromkeys(_CONTROL.findall(text)):
        if token not in vocabulary and token not in ("[INST]", "[/INST]"):
            return (
                False,
                f"the chat template writes {token!r}, which is no token of the tokenizer: it is of another model",
            )
    for turns in known:
        if all(each in text for each in turns):
            return True, f"the chat template writes turns with {' and '.join(turns)}"
    if known:
        ways = "; ".join(" and ".join(turns) for turns in known)
        return (
            False,
            f"the chat template reads {text[:120]!r}; checkpoints of this architecture write turns with {ways}",
        )
    return True, "all control tokens of the chat template are tokens; none are recorded for this architecture"


def _vocabulary(whole: Any, processor: Any) -> Finding:
    tokenizer, config = processor.tokenizer, whole.config
    rows = whole.get_input_embeddings().weight.shape[0]
    # Where an architecture is not known, a placeholder, whose embedding is overwritten, may have no row.
    kinds = () if config.model_type in KNOWN else ("image", "video", "audio")
    media = {getattr(processor, f"{kind}_token", None) for kind in kinds}
    ids = tokenizer.get_vocab()
    beyond = sorted((place, token) for token, place in ids.items() if place >= rows and token not in media)
    if beyond:
        return False, f"the embedding has {rows} rows, and the tokenizer's {beyond[0][1]!r} is token {beyond[0][0]}"
    # Some processors call the text that is written in an image's place, such as Gemma's, the image token.
    for kind in ("image", "video") if config.model_type.startswith(("qwen", "glm")) else ():
        mine, stated = (getattr(each, f"{kind}_token_id", None) for each in (processor, config))
        if isinstance(mine, int) and isinstance(stated, int) and mine != stated:
            return False, f"config.json has {stated} as its {kind} token, and the tokenizer has {mine}"
    return True, f"the embedding has {rows} rows for {max(ids.values()) + 1} tokens"


def _reduced(assembled: Assembled) -> str | None:
    language = assembled.model.part_roots["language"]
    size = sum(logical_size(p) for name, p in assembled.model.named_parameters() if name.startswith(language))
    why = f"a language model of {size} weights is taken for a reduced one that has learnt nothing"
    return why if size < REAL else None


def _replies_end(assembled: Assembled, precise: Precise) -> Finding:
    """Asks what every chat model can answer in a few words; a model of text that only goes on never ends its turn."""
    if why := _reduced(assembled) or (assembled.opened and "a reply begins with a thought, which may be long"):
        return None, why
    family = assembled.family
    rows = pad_left([family.layout(ASKED, None, shapes=())], [None], pad_id=family.pad_id)
    rows = rows.to(next(assembled.model.parameters()).device)
    with precise():
        (said,) = assembled.model.generate(rows, None, max_new_tokens=MOST_TOKENS, stop_ids=family.stop_ids)
    text = family.decode(said)[:80]
    if any(each in family.stop_ids for each in said):
        return True, f"the reply {text!r} ends by itself"
    return False, (
        f"the reply to {ASKED!r} goes on for {MOST_TOKENS} tokens ({text!r}): is it a base model, or is the chat "
        "template or the end token that of another?"
    )


@torch.no_grad()
def _plain_text(assembled: Assembled, tokenizer: Any, precise: Precise) -> Finding:
    whole: Any = assembled.model.of_transformers
    if why := _reduced(assembled):
        return None, why
    ids_1L = torch.tensor([tokenizer(PLAIN).input_ids], device=next(whole.parameters()).device)
    with precise():
        logprobs_LV = whole(input_ids=ids_1L).logits[0, :-1].float().log_softmax(-1)
    told = float(logprobs_LV.gather(1, ids_1L[0, 1:, None]).mean())
    chance = -float(torch.tensor(logprobs_LV.shape[1]).log())
    said = f"plain text has the log-probability {told:.2f} a token, where chance has {chance:.2f}"
    return told > chance + ABOVE, said
