"""Tests EVA, whose adapters begin with the directions of what goes into a layer, against peft's own code."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from peft import EvaConfig, LoraConfig, get_peft_model, initialize_lora_eva_weights

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Lora, PartName, PartTuning, Tuning
from medtune.models.tuning.starting_weights import EvaBatch, start_eva
from tests.models.twins import layout, logprobs, shown

QUESTIONS = ("Which plane is this one?", "Is there a cyst in the left kidney?", "What is it?", "Where is the head?")


def rows(assembled: Assembled, name: str, *questions: str) -> PackedRows:
    trees = [Shown(grow([layout(assembled, name, question=text)], [n]), n) for n, text in enumerate(questions)]
    return pack([[tree] for tree in trees], pad_id=assembled.family.pad_id)


def batches(assembled: Assembled, name: str, *, size: int = 1) -> Iterator[EvaBatch]:
    for number in itertools.count():
        texts = [QUESTIONS[(number + each) % len(QUESTIONS)] for each in range(size)]
        yield EvaBatch(rows(assembled, name, *texts), shown(assembled, name, *range(number % 4, number % 4 + size)))


def begun(name: str, part: PartName, lora: Lora, *, size: int = 1) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    parts = {each: PartTuning() for each in ("vision", "projector", "language")} | {part: PartTuning("lora", lora=lora)}
    apply_tuning(assembled.model, Tuning(**parts), seed=0)
    assembled.model.eval()
    start_eva(assembled.model, {part}, batches(assembled, name, size=size))
    return assembled


def test_weights_are_those_of_pefts_own_initialisation() -> None:
    mine, theirs = (
        begun("nano_pocket", "language", Lora(r=6, alpha=6, init="eva")),
        zoo_entry("nano_pocket").assemble(0),
    )
    theirs.model.eval()
    config = LoraConfig(
        r=6,
        lora_alpha=6,
        init_lora_weights="eva",
        eva_config=EvaConfig(rho=1.0),
        target_modules=r".*_proj",
    )
    torch.manual_seed(0)
    adapted = get_peft_model(theirs.model.get_submodule("language"), config)
    turn = batches(theirs, "nano_pocket")

    def forward(model: object, inputs: object) -> None:
        batch = next(turn)
        theirs.model(batch.rows, theirs.model.encode(batch.media))

    initialize_lora_eva_weights(
        adapted,
        [torch.zeros(1)],
        forward_fn=forward,
        prepare_model_inputs_fn=None,
        prepare_layer_inputs_fn=None,
        show_progress_bar=False,
    )
    wanted = {name: p for name, p in theirs.model.named_parameters() if ".lora_" in name}
    found = {name: p for name, p in mine.model.named_parameters() if ".lora_" in name}
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-4, atol=1e-5)
    ordinary = zoo_entry("nano_pocket").assemble(0)
    apply_tuning(ordinary.model, Tuning(language=PartTuning("lora", lora=Lora(r=6, alpha=6))), seed=0)
    for name, p in ordinary.model.named_parameters():
        if ".lora_A" in name:
            assert (found[name] - p).abs().max() > 0.05, "and they are not the random ones"


def test_padding_does_not_count() -> None:
    """One row of a batch is much shorter than the other; its padding must not become a direction."""
    assembled = zoo_entry("nano_pocket").assemble(0)
    long = rows(assembled, "nano_pocket", *QUESTIONS[1:3])
    assert bool((long.counted.sum(dim=1) < long.ids_BL.shape[1]).any())
    assert int(long.counted.sum()) == long.num_tokens
    other = long._replace(ids_BL=long.ids_BL.masked_fill(~long.counted, 7))
    assert not torch.equal(other.ids_BL, long.ids_BL)

    def first(batch: PackedRows) -> torch.Tensor:
        model = zoo_entry("nano_pocket").assemble(0).model
        apply_tuning(model, Tuning(language=PartTuning("lora", lora=Lora(r=4, init="eva"))), seed=0)
        start_eva(model, {"language"}, itertools.repeat(EvaBatch(batch, shown(assembled, "nano_pocket", 0, 1))))
        return model.get_parameter("language.model.layers.0.self_attn.q_proj.lora_A.default.weight")

    torch.testing.assert_close(first(long), first(other), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "part"), [("nano_qwen25vl", "vision"), ("nano_mllama", "language"), ("nano_qwen25vl", "projector")]
)
def test_directions_are_orthonormal_and_answers_unchanged(name: str, part: PartName) -> None:
    assembled = begun(name, part, Lora(r=4, init="eva", dora=True), size=2)
    found = [p for each, p in assembled.model.named_parameters() if ".lora_A" in each]
    assert found
    for A_RI in found:
        torch.testing.assert_close(A_RI @ A_RI.T, torch.eye(4), rtol=0, atol=1e-3)
    plain = zoo_entry(name).assemble(0)
    plain.model.eval()
    torch.testing.assert_close(logprobs(assembled, name), logprobs(plain, name), rtol=1e-4, atol=1e-4)


def test_a_convolution_a_wide_rank_and_too_few_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"init eva: vision\S+ is a convolution"):
        begun("nano_pocket", "vision", Lora(r=4, init="eva"))
    with pytest.raises(ValueError, match=r"too small for lora\.r 48; lower it to 32"):
        begun("nano_pocket", "language", Lora(r=48, init="eva"))
