"""Tests that no checkpoint runs code of its own, and that no call of transformers could ask whether it may."""

import ast
import builtins
import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

import medtune
from medtune.models.assemble import zoo_entry
from medtune.models.nano import byte_tokenizer
from medtune.models.nano.transformers_vlm import text_config
from medtune.models.weights.assets import AssetError
from medtune.models.weights.causal_language import LocalJudge, context_of
from medtune.models.weights.export import assemble_model, write_exported
from medtune.models.weights.loading_options import Loading
from tests.models.answering.test_answering_together import NUM_GROUPS, answers, four_visits
from tests.models.transformers_vlm.test_parity import saved

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<user>{{ m.role }}: {{ m.content }}<stop>\n{% endfor %}"
    "{% if add_generation_prompt %}<user>assistant: {% endif %}"
)
KINDS = ("qwen2", "gpt2", "mistral")


def tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """Returns a tokenizer of bytes with two control tokens of its own."""
    found = byte_tokenizer(("<begin>", "<user>", "<stop>"), bos="<begin>", eos="<stop>", pad="<stop>")
    found.chat_template = template
    return found


def write_language(folder: Path, kind: str) -> Path:
    """Writes a random model; qwen2 and mistral (with a sliding window) have a chat template, gpt2 has none."""
    words = tokenizer(None if kind == "gpt2" else TEMPLATE)
    sizes = text_config(words)
    configs: dict[str, PreTrainedConfig] = {
        "qwen2": Qwen2Config(**sizes),
        "mistral": MistralConfig(**sizes, sliding_window=512),
        "gpt2": GPT2Config(
            vocab_size=len(words), n_embd=32, n_layer=2, n_head=4, n_positions=1024, initializer_range=0.2
        ),
    }
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(configs[kind]).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


CALLS = ("from_pretrained", "from_config", "load_dataset")
RUNS_NO_CODE = ("PeftModel", "LoraConfig")
"""Classes whose method reads tensors and numbers only, and takes no such argument."""
CODE = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


def _calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if called in CALLS and not (isinstance(owner, ast.Name) and owner.id in RUNS_NO_CODE):
                yield node


def _forbids_code(call: ast.Call) -> bool:
    said = [keyword.value for keyword in call.keywords if keyword.arg == "trust_remote_code"]
    return len(said) == 1 and isinstance(said[0], ast.Constant) and said[0].value is False


def test_every_call_that_could_run_code_forbids_it() -> None:
    root = Path(medtune.__file__).parent
    calls = [(path, call) for path in sorted(root.rglob("*.py")) for call in _calls(path)]
    lacking = [f"{path.relative_to(root)}:{call.lineno}" for path, call in calls if not _forbids_code(call)]
    assert lacking == []
    assert len(calls) >= 10


def test_the_walk_finds_a_call_without_it(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("AutoConfig.from_pretrained(x)\nAutoConfig.from_pretrained(x, trust_remote_code=trust)\n")
    assert [_forbids_code(call) for call in _calls(path)] == [False, False]


@pytest.fixture(params=["closed", "terminal"])
def stdin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Gives the process a closed stdin or a terminal; collects what it is asked."""
    asked: list[str] = []

    def input_(prompt: str = "") -> str:
        asked.append(prompt)
        return "y"

    monkeypatch.setattr(builtins, "input", input_)
    leader, follower = pty.openpty()
    file: TextIO = os.fdopen(follower, encoding="utf-8")
    if request.param == "closed":
        file.close()
    monkeypatch.setattr("sys.stdin", file)
    yield asked
    if not file.closed:
        file.close()
    os.close(leader)


def wants_code(folder: Path, file: str, auto_map: dict[str, Any], **changes: object) -> None:
    path = folder / file
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**said, **changes, "auto_map": auto_map}), "utf-8")
    (folder / "own.py").write_text(CODE, "utf-8")


def test_a_model_that_wants_code_is_refused_with_its_folder_and_what_to_do(tmp_path: Path, stdin: list[str]) -> None:
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config"}, model_type="own_vlm")
    with pytest.raises(ValueError, match=r"checkpoint: it wants to run code .*config\.json.* Take .* or convert it"):
        zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []
    assert not (folder / "ran").exists()


def test_a_processor_that_wants_code_is_refused(tmp_path: Path, stdin: list[str]) -> None:
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    for path in folder.glob("*processor*.json"):
        path.unlink()
    wants_code(folder, "preprocessor_config.json", {"AutoProcessor": "own.Processor"}, processor_class="OwnProcessor")
    with pytest.raises(ValueError, match=r"checkpoint: it wants to run code of its own \(auto_map in preprocessor_"):
        zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []


def test_code_that_transformers_does_not_need_is_not_run(tmp_path: Path, stdin: list[str]) -> None:
    """An architecture that transformers knows is read with transformers' own class."""
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config", "AutoModelForImageTextToText": "own.Model"})
    zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []
    assert not (folder / "ran").exists()


def test_language_models_and_judges_that_want_code_are_refused(tmp_path: Path, stdin: list[str]) -> None:
    folder = write_language(tmp_path / "language", "qwen2")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config"}, model_type="own_language")
    with pytest.raises(ValueError, match=r"language: it wants to run code"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(folder)))
    with pytest.raises(ValueError, match=r"language: it wants to run code"):
        LocalJudge(str(folder), dtype="float32", max_new_tokens=4, device=torch.device("cpu"))
    assert stdin == []


@pytest.mark.parametrize("kind", KINDS)
def test_grouped_answers_are_those_of_each_alone_and_read_back(kind: str, tmp_path: Path) -> None:
    loading = Loading(language=str(write_language(tmp_path / kind, kind)))
    assembled = zoo_entry("nano_pocket_ct").assemble(0, loading)
    assembled.model.eval()
    assert assembled.provenance["language"] == kind
    asked = four_visits(tmp_path, kind="volume")
    alone, together = answers(assembled, asked), answers(assembled, asked, batch_size=NUM_GROUPS)
    (tmp_path / "out").mkdir()
    write_exported(assembled, tmp_path / "out", name="nano_pocket_ct", base_weights=None)
    again = assemble_model("nano_pocket_ct", 1, Loading(weights=str(tmp_path / "out"), language=loading.language))
    again.model.eval()
    read = answers(again, asked)
    for key, one in alone.items():
        assert one.text == together[key].text == read[key].text
        if one.option_logprobs:
            assert one.option_logprobs == pytest.approx(together[key].option_logprobs, abs=1e-4)
            assert one.option_logprobs == pytest.approx(read[key].option_logprobs, abs=1e-4)


def test_a_sliding_window_is_the_context() -> None:
    assert context_of(MistralConfig(max_position_embeddings=4096, sliding_window=512)) == 512
    assert context_of(GPT2Config(n_positions=1024)) == 1024


def test_what_is_no_language_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="is no local folder"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(tmp_path / "nowhere")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: no language model that transformers can read"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(tmp_path / "empty")))
    with pytest.raises(ValueError, match=r"model\.language"):
        assemble_model("nano_pocket", 0, Loading(language="x"))
