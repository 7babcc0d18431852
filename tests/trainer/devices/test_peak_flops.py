"""The operations of a step are those that torch counts in its products, and no peak is made up."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from medtune.models.assemble import zoo_entry
from medtune.models.tuning import fused_lora
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Tuning
from medtune.trainer.devices.peak_flops import PEAKS, StepWork, peak_here, peak_of, work_of
from medtune.trainer.throughput import MFU, Throughput, throughput_said

TOKENS, TARGETS = 7, 3


def test_the_operations_are_those_that_torch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, adapters included, with an output layer that is asked at the targets alone.

    Torch's counter knows no products that add to what is there, which adapters make in float32 on a CPU.
    """
    monkeypatch.setattr(fused_lora, "_fuses", lambda layer, x: False)
    model = zoo_entry("nano_pocket").assemble(0).model
    apply_tuning(model, Tuning(), seed=0)
    whole = model.of_transformers
    embedded = torch.randn(1, TOKENS, whole.config.get_text_config().hidden_size, requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        hidden = whole.get_decoder()(inputs_embeds=embedded).last_hidden_state
        whole.get_output_embeddings()(hidden[:, :TARGETS]).sum().backward()
    counted = counter.get_flop_counts()["Global"]
    products = sum(counted[each] for each in (torch.ops.aten.mm, torch.ops.aten.addmm) if each in counted)
    work = work_of(model)
    assert products == work.of_token * TOKENS + work.of_target * TARGETS
    assert 0 < work.of_target < work.of_token


def test_the_share_of_the_peak_is_said_where_it_is_known() -> None:
    pace = Throughput(StepWork(of_token=100.0, of_target=10.0), peak=1e4)
    pace.steps, pace.seconds, pace.tokens, pace.target_tokens = 2, 4.0, 120.0, 8
    found = pace.take(torch.device("cpu"))
    assert found[MFU] == pytest.approx((120 * 100 + 8 * 10) / 4 / 1e4)
    assert throughput_said(found).endswith("30 % MFU")
    for unknown in (Throughput(StepWork(100.0, 10.0)), Throughput(peak=1e4)):
        unknown.steps, unknown.seconds, unknown.tokens = 1, 1.0, 100.0
        rates = unknown.take(torch.device("cpu"))
        assert MFU not in rates
        assert "MFU" not in throughput_said(rates)


def test_a_cpu_and_an_unknown_gpu_have_no_peak() -> None:
    assert peak_here(torch.device("cpu"), "bf16-mixed") is None
    assert peak_of("NVIDIA GeForce GTX 1080", "16-mixed") is None
    assert peak_of("NVIDIA A100-SXM4-80GB", "32-true") is None


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.4),
        ("NVIDIA RTX A6000", 154.8),
        ("Tesla V100-PCIE-32GB", 112),
        ("Tesla V100-SXM2-32GB", 125),
        ("NVIDIA A40", 149.7),
        ("NVIDIA L4", 121),
    ],
)
def test_a_gpu_is_found_by_the_whole_words_of_its_name(name: str, tera: float) -> None:
    assert peak_of(name, "bf16-mixed") == tera * 1e12


def test_no_name_hides_another_behind_it() -> None:
    assert all(peak_of(f"NVIDIA {name}", "16-mixed") == peak for name, peak in PEAKS)
