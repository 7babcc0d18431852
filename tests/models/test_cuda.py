"""Tests that every model family gives the same answers and gradients on a GPU as on a CPU, with shared rows or not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import open_prepared
from medtune.data.types import Request
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Precision, Tuning
from medtune.models.tuning.quantize import Precise, precise, quantize_language, resolved, set_types
from tests.models.twins import EVERY_TWIN, logprobs

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
IN_16_BITS = 0.15
"""Of log-probabilities of random tiny models, whose weights are ten times as large as a real model's."""


@pytest.fixture(autouse=True)
def whole_float32() -> Iterator[None]:
    """Makes convolutions compute in float32; by default, cuDNN rounds their inputs to 10 bits."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield


def _assembled(name: str) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    assembled.model.eval()
    return assembled


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_log_probabilities_and_gradients_are_a_cpus(name: str) -> None:
    found = {}
    for device in ("cpu", "cuda"):
        assembled = _assembled(name)
        apply_tuning(assembled.model, Tuning(), seed=0)
        assembled.model.to(device)
        told = logprobs(assembled, name)
        told.sum().backward()
        named = assembled.model.named_parameters()
        found[device] = told.detach().cpu(), {n: p.grad.cpu() for n, p in named if p.grad is not None}
    (told_here, gradients_here), (told_there, gradients_there) = found["cpu"], found["cuda"]
    assert told_there == pytest.approx(told_here, abs=1e-3)
    assert gradients_there.keys() == gradients_here.keys() != set()
    largest = max(float(gradient.abs().max()) for gradient in gradients_here.values())
    for parameter, gradient in gradients_here.items():
        assert float((gradients_there[parameter] - gradient).abs().max()) < 1e-3 * largest, parameter


@pytest.mark.parametrize("name", EVERY_TWIN)
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_16_bits_say_nearly_the_same(name: str, precision: Precision) -> None:
    assembled = _assembled(name)
    wanted = logprobs(assembled, name).detach()
    assembled.model.requires_grad_(False)
    set_types(assembled.model, precision)
    assembled.model.to(GPU)
    with torch.no_grad(), precise(precision, GPU)():
        told = logprobs(assembled, name)
    assert told.dtype == torch.float32
    assert told.cpu() == pytest.approx(wanted, abs=IN_16_BITS * max(1.0, float(wanted.abs().max())))


def test_auto_is_bfloat16_where_the_gpu_computes_it() -> None:
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    assert resolved("auto", GPU) == ("bf16-mixed" if native else "32-true")


def _answers(assembled: Assembled, root: Path, *, device: torch.device, share: bool, how: Precise) -> dict[str, object]:
    """Returns the options' log-probabilities and the replies for a few images, all answered in one pass."""
    prepared, benchmark = open_prepared(root), find_benchmark("busi")
    answerer = LocalAnswerer(
        assembled, device=device, batch_tokens=4096, max_new_tokens=6, precise=how, batch_size=4, share_prefix=share
    )
    visits = []
    for group in prepared.groups("test")[:4]:
        asked = [Request(q, benchmark.render(q, "text"), "likelihood", "image") for q in group.questions if q.options]
        asked += [Request(q, benchmark.render(q, "text"), "generation", "image") for q in group.questions]
        visits.append((group, asked))
    answerer.expect(visits)
    found: dict[str, object] = {}
    for group, asked in visits:
        for told in answerer.answer(group, asked):
            found[f"{told.key.question_id} {told.key.reading}"] = told.option_logprobs or told.text
    return found


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl", "nano_mllama", "nano_gemma3"])
def test_answers_are_a_cpus_whether_beginnings_are_shared_or_not(name: str, prepared_tiny: Path) -> None:
    how = precise("32-true", GPU)
    wanted = _answers(_assembled(name), prepared_tiny, device=torch.device("cpu"), share=True, how=how)
    there = _assembled(name)
    there.model.to(GPU)
    for share in (True, False):
        found = _answers(there, prepared_tiny, device=GPU, share=share, how=how)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert found[key] == (pytest.approx(value, abs=1e-3) if isinstance(value, tuple) else value), key


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl"])
def test_4_bits_on_a_gpu_stand_for_the_weights_that_they_do_on_a_cpu(name: str) -> None:
    pytest.importorskip("bitsandbytes")
    found = []
    for device in (torch.device("cpu"), GPU):
        assembled = _assembled(name)
        quantize_language(assembled.model, precision="32-true", device=device)
        apply_tuning(assembled.model, Tuning(), seed=0)
        assembled.model.to(device)
        told = logprobs(assembled, name)
        told.sum().backward()
        gradients = [p.grad.flatten().cpu() for p in assembled.model.parameters() if p.grad is not None]
        found.append((told.detach().cpu(), torch.cat(gradients)))
    (told_here, gradients_here), (told_there, gradients_there) = found
    assert told_there == pytest.approx(told_here, abs=5e-3)
    assert float((gradients_there - gradients_here).abs().max()) < 5e-3 * float(gradients_here.abs().max())
