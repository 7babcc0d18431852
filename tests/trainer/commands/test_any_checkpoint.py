"""Tests the commands on checkpoints without a family, which a recipe names by their folder."""

from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from medtune.models.transformers_vlm import conversation
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.weights.loading_options import Loading
from medtune.trainer.commands.cli import main
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.models.transformers_vlm.test_parity import saved
from tests.models.twins import picture
from tests.soak import in_suites
from tests.trainer.conftest import QUICK, Capture, Nano, Told, json_of

pytestmark = pytest.mark.usefixtures("forked_readers")
ARCHITECTURES = ("lfm2_vl", "llava_next", "ovis2")
COMMANDS = ("run", "train", "eval")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "medtune" / "doctor"


def _validated(root: Path, weights: Path, *settings: str) -> int:
    named = ["model.name=auto", f"model.weights={weights}", "model.tuning.projector.mode=lora", *settings]
    return main(["validate", "nano_busi_lora", "--set", f"data.root={root}", *QUICK, *named])


@pytest.mark.slow
def test_validate_proves_a_checkpoint_once(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, shown: Told, own_cache: Path
) -> None:
    weights = write_checkpoint("lfm2_vl", tmp_path / "checkpoint")
    said = shown(_validated(prepared_tiny, weights))
    for words in (
        "log-probabilities of",
        "greedy replies to",
        "generic entry for lfm2_vl (model.multi_modal_projector)",
        "a row for each question: it is read by the generic entry",
        "assistant\n[[",
    ):
        assert words in said
    assert len(list(own_cache.iterdir())) == 1
    assert "comparing it with plain transformers" not in shown(_validated(prepared_tiny, weights))
    assert _validated(prepared_tiny, weights, "train.strategy=fsdp", "train.devices=2") == 1
    said = capsys.readouterr().out
    assert "different numbers of passes" in said
    assert "Take train.strategy=deepspeed_stage_2" in said


# The proof of this checkpoint fails in tests/models/transformers_vlm/generic; `validate` refuses another one below.
@pytest.mark.soak
def test_a_checkpoint_that_is_read_otherwise_is_refused(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry takes PaliGemma, whose questions see their own end, for a model like others."""
    monkeypatch.setattr(conversation, "marks_prefix", lambda _: False)
    weights = write_checkpoint("paligemma", tmp_path / "checkpoint")
    assert _validated(prepared_tiny, weights) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "FAIL answers are hidden" in said
    assert "reads the answer before it says it" in said
    assert f"proof: {weights} is not read as plain transformers reads it" in said


@pytest.mark.slow
def test_where_the_proof_of_a_family_fails_the_generic_entry_is_tried_and_said(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The family ends answers with another token than the template's; the generic entry does not use the family."""
    saved("nano_llava", tmp_path)
    sequence = Family.sequence

    def ended_otherwise(*given: Any, **named: Any) -> Any:
        made = sequence(*given, **named)
        made._stop_id = made.tokenizer.convert_tokens_to_ids("<pad>")
        return made

    monkeypatch.setattr(Family, "sequence", ended_otherwise)
    assert _validated(prepared_tiny, tmp_path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "FAIL end token" in said
    assert "the generic entry was tried as well (model.name=auto model.reader=generic): verified on a CPU" in said


def test_list_shows_the_entry(shown: Told) -> None:
    assert "any vision-language model of transformers" in shown(main(["list", "models"]))


@pytest.mark.parametrize("name", in_suites(ARCHITECTURES, slow=("llava_next",)))
def test_a_run_learns_exports_and_is_read_by_plain_transformers(
    name: str, nano: Nano, tmp_path: Path, shown: Told
) -> None:
    weights = write_checkpoint(name, tmp_path / "checkpoint")
    how = ("model.tuning.vision.mode=lora", "model.tuning.vision.lr=1e-2", "model.tuning.language.lr=1e-2",
           "model.tuning.projector.lr=1e-2")  # fmt: skip
    run = tmp_path / "run"
    said = shown(nano.here("run", run, f"model.name={weights}", *how))
    assert "the first run of this checkpoint here" in said
    assert json_of(run / "doctor.json")["weights"] == str(weights)
    results = json_of(run / "results.json")
    assert results["model"] == str(weights)
    phases = [(run / phase / "predictions.jsonl").read_text("utf-8") for phase in ("zero_shot", "final")]
    assert phases[0] != phases[1]
    out = tmp_path / "export"
    assert main(["export", str(run), "--out", str(out)]) == 0
    _same_as_plain(name, out)


# What `validate` refuses is above, and what a run of a family does without a proof in tests/trainer/doctor.
@pytest.mark.soak
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_trusts_a_checkpoint_that_is_read_otherwise(
    command: str, nano: Nano, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "marks_prefix", lambda _: False)
    weights = write_checkpoint("paligemma", tmp_path / "checkpoint")
    assert nano.here(command, tmp_path / "run", f"model.name={weights}") == 1
    assert "the run stops here" in capsys.readouterr().out
    assert not (tmp_path / "run" / "zero_shot").exists()
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def _same_as_plain(name: str, folder: Path) -> None:
    """Compares the exported folder's answers by medtune with those of plain transformers."""
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder)))
    whole: Any = AutoModelForImageTextToText.from_pretrained(folder)
    processor: Any = AutoProcessor.from_pretrained(folder)
    shown = {"type": "image", "image": PIL.Image.fromarray(picture(0).pixels_HWC)}
    asked = processor.apply_chat_template(
        [{"role": "user", "content": [shown, {"type": "text", "text": "Which plane?"}]}],
        tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True,
    )  # fmt: skip
    assert whole.generate(**asked, max_new_tokens=6).shape[1] > asked["input_ids"].shape[1]
    assert not any("lora" in key for key in whole.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), assembled.model.parameters(), strict=True))
