"""Plants every fault in a checkpoint of every family, each of which the doctor has to name; healthy ones pass."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.doctor import known
from medtune.models.doctor.answers import Asking, answer_checks
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.reference import TOLERANCE, Check
from medtune.models.doctor.sequences import sequence_checks
from medtune.models.doctor.weights import weights_check
from medtune.models.sequence.builder import Sequence
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import family_of, from_checkpoint
from medtune.models.transformers_vlm.originals.read import original_tensors
from medtune.models.tuning.plan import PartTuning
from medtune.models.tuning.quantize import is_lora
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.families import FAMILIES
from tests.models.doctor.test_faults import TUNING, asked_about, failed, pictures, trained

LANGUAGE_ALONE = replace(TUNING, vision=PartTuning("frozen"), projector=PartTuning("frozen"))
ASKING = Asking(torch.device("cpu"), nullcontext, TOLERANCE[torch.float32], max_new_tokens=4)
TEXT = {"type": "text", "text": "Q?"}
CHATML, LLAMA3 = ("<|im_start|>", "<|im_end|>"), ("<|start_header_id|>", "<|eot_id|>")
each_family = pytest.mark.parametrize("name", FAMILIES)


def _read(folder: Path) -> tuple[Assembled, Any]:
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder)))
    assembled.model.eval()
    family = family_of(assembled.model.of_transformers.config)
    return assembled, reference_of(
        assembled, find_family(family) if family else None, folder=folder, loading=DEFAULT, precise=nullcontext
    )


def _facts(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in known.known_checks(*_read(folder), nullcontext)}


def _image_of(processor: Any) -> str:
    """Returns the text that the processor's own template writes in an image's place."""
    if processor.chat_template is None:
        return "<image>"
    with_image, without = (
        str(processor.apply_chat_template([{"role": "user", "content": [*shown, TEXT]}], tokenize=False))
        for shown in ([{"type": "image"}], [])
    )
    begins = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(with_image, without, strict=False)))
    return with_image[begins : len(with_image) - len(without) + begins]


def _told(folder: Path, *names: str) -> Iterator[tuple[Path, Any]]:
    """Yields each file of these names that the folder has, with what it says."""
    for path in (folder / name for name in names):
        if path.is_file():
            yield path, json.loads(path.read_text("utf-8"))


def _foreign_template(folder: Path, image: str) -> bool:
    is_llama = "<|start_header_id|>" in (folder / "tokenizer.json").read_text("utf-8")
    before, behind = CHATML if is_llama else LLAMA3
    text = (
        f"{{% for m in messages %}}{before}{{{{ m['role'] }}}}\n{{% for p in m['content'] %}}"
        f"{{% if p['type'] == 'image' %}}{image}{{% else %}}{{{{ p['text'] }}}}{{% endif %}}{{% endfor %}}{behind}"
        f"{{% endfor %}}{{% if add_generation_prompt %}}{before}assistant\n{{% endif %}}"
    )
    for path, said in _told(folder, "config.json"):
        if "template" in said:
            other = "internvl2_5" if said["template"] == "phi3-chat" else "phi3-chat"
            path.write_text(json.dumps({**said, "template": other}), "utf-8")
    (folder / "chat_template.jinja").write_text(text, "utf-8")
    return True


def _other_normalisation(folder: Path, _: str) -> bool:
    planted = False
    for path, told in _told(folder, "processor_config.json", "preprocessor_config.json"):
        images = told.get("image_processor", told)
        if images.get("do_normalize", True) and "image_mean" in images:
            mean, deviation = images["image_mean"], images["image_std"]
            if mean == deviation:
                mean, deviation = map(list, known.CLIP)
            images |= {"image_mean": deviation, "image_std": mean}
            path.write_text(json.dumps(told), "utf-8")
            planted = True
    return planted


def _other_base(folder: Path, _: str) -> bool:
    planted = 0

    def change(told: Any) -> None:
        nonlocal planted
        for key, value in list(told.items()):
            if key == "rope_theta" and value:
                told[key], planted = value * 3, planted + 1
            elif isinstance(value, dict) and "vision" not in key:
                change(value)

    for path, told in _told(folder, "config.json"):
        change(told)
        path.write_text(json.dumps(told), "utf-8")
    return planted > 0


def _one_row_short(folder: Path, _: str) -> bool:
    path = folder / "model.safetensors"
    tensors, size = load_file(path), 0
    for name, tensor in tensors.items():
        if any(each in name for each in ("embed_tokens.", "lm_head.", "tok_embeddings.", "model.output.")):
            size = max(size, len(tensor))
    short = {n: t[:-1].clone() if len(t.shape) == 2 and len(t) == size else t for n, t in tensors.items()}
    save_file(short, path, metadata={"format": "pt"})

    def change(told: Any) -> None:
        for key, value in told.items():
            if key in ("vocab_size", "padded_vocab_size") and value == size:
                told[key] = size - 1
            elif isinstance(value, dict):
                change(value)

    for config, told in _told(folder, "config.json"):
        change(told)
        config.write_text(json.dumps(told), "utf-8")
    return True


IN_THE_FOLDER: Mapping[str, tuple[str, Callable[[Path, str], bool]]] = {
    "a foreign template": ("control tokens", _foreign_template),
    "another normalisation": ("normalisation", _other_normalisation),
    "another rotary base": ("rope", _other_base),
    "a vocabulary one short": ("vocabulary", _one_row_short),
}


REFUSED = {"control tokens": "the chat template", "vocabulary": "cannot read its weights"}
"""What the reading of a folder says of some faults, before there is a model to check."""


@pytest.mark.soak
@each_family
def test_faults_in_a_folder_are_named(name: str, tmp_path: Path) -> None:
    FAMILIES[name](tmp_path / "healthy")
    right, reference = _read(tmp_path / "healthy")
    healthy = {check.name: check for check in known.known_checks(right, reference, nullcontext)}
    assert failed(healthy) == set(), [healthy[each] for each in failed(healthy)]
    image, unseen = _image_of(reference.processor), []
    for fault, (check, plant) in IN_THE_FOLDER.items():
        folder = tmp_path / check
        shutil.copytree(tmp_path / "healthy", folder)
        if not plant(folder, image):
            # The layouts of InternVL's and LLaVA's authors name no pixels, and Gemma 3n and 4 do not normalise them.
            assert check == "normalisation", fault
            assert "authors" in name or name in ("gemma3n", "gemma4")
            continue
        try:
            checks = _facts(folder)
        except ValueError as refused:
            if REFUSED.get(check, "-") not in str(refused):
                unseen.append(f"{fault}: refused with {refused}")
            continue
        if check not in failed(checks):
            unseen.append(f"{fault}: {checks[check].detail}")
    assert unseen == []


class _Planted:
    """A sequence family or a transform of which one method is another."""

    def __init__(self, right: Any, **planted: Any) -> None:
        self._right, self._planted = right, planted

    def __getattr__(self, name: str) -> Any:
        return self._planted.get(name, getattr(self._right, name))


class _UpsideDown(_Planted):
    def __call__(self, media: Any) -> Any:
        return self._right(replace(media, pixels_HWC=media.pixels_HWC[::-1].copy()))


def _laid_out(change: Callable[[Sequence], Sequence]) -> Callable[[Assembled], Assembled]:
    def plant(right: Assembled) -> Assembled:
        layout = right.family.layout
        family: Any = _Planted(right.family, layout=lambda *told, **named: change(layout(*told, **named)))
        return replace(right, family=family)

    return plant


def _another_word(laid: Sequence) -> Sequence:
    """Writes another token, of the same prompt, in the place of one of its last."""
    place = len(laid.ids) - laid.num_targets - 2
    other = next(token for token in laid.ids if token != laid.ids[place])
    return replace(laid, ids=(*laid.ids[:place], other, *laid.ids[place + 1 :]))


def _a_token_less(laid: Sequence) -> Sequence:
    """Takes the last visual token for a word."""
    last = laid.media_spans[-1]
    place, word = last.stop - 1, laid.ids[-laid.num_targets - 1]
    spans = (*laid.media_spans[:-1], last._replace(stop=place))
    return replace(laid, ids=(*laid.ids[:place], word, *laid.ids[place + 1 :]), media_spans=spans)


def _another_end(laid: Sequence) -> Sequence:
    if not laid.num_targets:
        return laid
    end = laid.ids[-2]
    return replace(laid, ids=(*laid.ids[:-1], end), labels=(*laid.labels[:-1], end))


def _places_shifted(laid: Sequence) -> Sequence:
    behind = laid.media_spans[-1].stop if laid.media_spans else 1
    moved = [(each[0] + 1, *each[1:]) if isinstance(each, tuple) else each + 1 for each in laid.positions]
    return replace(laid, positions=(*laid.positions[:behind], *moved[behind:]))


IN_THE_READING: Mapping[str, tuple[str, Callable[[Assembled], Assembled]]] = {
    "another word in the prompt": ("template", _laid_out(_another_word)),
    "a visual token less": ("image tokens", _laid_out(_a_token_less)),
    "another end": ("end token", _laid_out(_another_end)),
    "places shifted by one": ("positions", _laid_out(_places_shifted)),
    "a picture upside down": ("pixels", lambda right: replace(right, transform=_UpsideDown(right.transform))),
}


@pytest.mark.soak
@each_family
def test_faults_in_what_is_read_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAMILIES[name](tmp_path / "healthy")
    right, reference = _read(tmp_path / "healthy")
    asked = asked_about(pictures(tmp_path))
    told = {check.name: check for check in sequence_checks(right, reference, asked)}
    assert failed(told) == set(), [told[each] for each in failed(told)]
    unseen = []
    for fault, (check, plant) in IN_THE_READING.items():
        planted = {each.name: each for each in sequence_checks(plant(right), reference, asked)}
        if told[check].passed and check not in failed(planted):
            unseen.append(f"{fault}: {planted[check].detail}")
    read = LocalAnswerer._read
    monkeypatch.setattr(
        LocalAnswerer, "_read", lambda *told: [[values[1], values[0], *values[2:]] for values in read(*told)]
    )
    if "options" not in failed({each.name: each for each in answer_checks(right, reference, asked, ASKING)}):
        unseen.append("two options swapped")
    assert unseen == []


@pytest.mark.soak
@each_family
def test_faults_in_the_weights_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAMILIES[name](tmp_path / "healthy")
    right, reference = _read(tmp_path / "healthy")

    def check() -> bool | None:
        return weights_check(
            right.model, tmp_path / "healthy", read_as=torch.float32, published=original_tensors
        ).passed

    assert check()
    matrices = [p for n, p in right.model.named_parameters() if ".layer" in n and p.dim() == 2]
    one, other = next((a, b) for a in matrices for b in matrices if a is not b and a.shape == b.shape)
    one.data, other.data = other.data, one.data
    assert check() is False, "two matrices in each other's place"
    one.data, other.data = other.data, one.data
    one.data = one.data.half().float()
    assert check() is False, "rounded values"
    monkeypatch.setattr(known, "REAL", 0)
    embedding = _with_bigrams(right.model.of_transformers, reference.processor.tokenizer)
    plain = known.NAMES.index("plain text")
    assert known.known_checks(right, reference, nullcontext)[plain].passed
    with torch.no_grad():
        embedding.copy_(embedding.roll(1, dims=0))
    assert known.known_checks(right, reference, nullcontext)[plain].passed is False


def _with_bigrams(whole: Any, tokenizer: Any) -> Any:
    """Makes a bigram model of the text of `known` out of a language model, in place, and returns its embedding."""
    ids = tokenizer(known.PLAIN).input_ids
    embedding, output = whole.get_input_embeddings(), whole.get_output_embeddings()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if ".layers." in name and parameter.dim() > 1:
                parameter.zero_()
        embedding.weight.normal_()
        # The letters of the text are at right angles, so that each has followers of its own.
        letters = torch.tensor(sorted(set(ids)))
        embedding.weight[letters] = torch.nn.init.orthogonal_(torch.empty(len(letters), embedding.weight.shape[1]))
        output.weight = torch.nn.Parameter(torch.zeros_like(output.weight))
        for now, then in set(pairwise(ids)):
            output.weight[then] += 1.5 * embedding.weight[now]
    return embedding.weight


@pytest.mark.soak
@each_family
def test_faults_in_learning_are_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "healthy"
    FAMILIES[name](folder)
    asked = asked_about(pictures(tmp_path), per_media=1)

    def adapters(assembled: Assembled) -> Any:
        return [layer for layer in assembled.model.modules() if is_lora(layer)]

    def several(assembled: Assembled) -> None:
        layers = adapters(assembled)
        layers[0].scaling["default"] *= 2
        layers[1].lora_B.default.weight.requires_grad_(False)
        layers[-1].lora_A.bfloat16(), layers[-1].lora_B.bfloat16()
        layers[-1].cast_input_dtype_enabled = True

    def deaf(assembled: Assembled) -> None:
        adapters(assembled)[0].lora_A.default.weight.register_hook(lambda gradient: gradient * 0)

    for fault, checks in ((several, {"adapter scale", "what learns", "number format"}), (deaf, {"gradients"})):
        assembled, _ = _read(folder)
        family = family_of(assembled.model.of_transformers.config) or ""
        found = trained(family, assembled, folder, asked, tmp_path, tuning=LANGUAGE_ALONE, fault=fault)
        assert checks <= failed(found), [found[each] for each in checks]
