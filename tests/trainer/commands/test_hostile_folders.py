"""Every command over folders of a stranger: none of their code runs, nothing hangs, no text steers a terminal."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import yaml

from medtune.trainer.commands.cli import COMMANDS, main
from tests.benchmarks.vqa.own_data import pictures
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.models.weights.adapters.test_settings import BOMB
from tests.soak import in_suites
from tests.trainer.conftest import QUICK, Capture, Nano, Told

pytestmark = pytest.mark.usefixtures("forked_readers")
ALL_S = 10
"""The time that a command may take over a hostile folder."""
ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x9b2J"
LIKELIHOOD = ("eval.readings=[likelihood]", "eval.conditions=[image]")


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert Nano(prepared_tiny).here("run", out, *LIKELIHOOD, extra=("--limit", "4")) == 0
    return out


@pytest.fixture(scope="module")
def export(run: Path) -> Path:
    out = run.parent / "export"
    assert main(["export", str(run), "--out", str(out), "--no-proof"]) == 0
    return out


def armed(folder: Path, marker: Path, *, how: str) -> Path:
    """Lets a folder ask for code of its own, which would leave a marker, in place of its model and benchmark."""
    code = f"open({str(marker)!r}, 'w').close()\n\n\ndef entry():\n    ...\n\n\ndef benchmark():\n    ...\n"
    for place in ("models", "benchmarks", "code/models", "code/benchmarks"):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "evil.py").write_text(code)
    for name in ("sitecustomize", "yaml", "torch", "numpy", "medtune"):
        (folder / f"{name}.py").write_text(code)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    recipe["model"]["name"] = "evil"
    if how == "absolute":
        recipe["plugins"] = [str(folder.resolve() / "code")]
    elif how == "relative":
        recipe["plugins"] = ["."]
        recipe["data"]["benchmark"] = "evil"
    else:
        (folder / "base.yaml").write_text(f"plugins: [.]\n{(folder / 'recipe.yaml').read_text()}")
        recipe = {"extends": "base.yaml", "model": recipe["model"]}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder


def commands_over(folder: Path, beside: Path, prepared: Path) -> dict[str, list[list[str]]]:
    """Returns how each command is called with a folder, by its name."""
    picture, table, recipe, out = beside / "p.png", beside / "t.csv", folder / "recipe.yaml", beside / "out"
    PIL.Image.new("RGB", (32, 32)).save(picture)
    table.write_text("image,question\np.png,Is it a cyst?\n")

    def over(field: str, command: str = "eval") -> list[str]:
        settings = [f"data.root={prepared}", f"model.{field}={folder}", *QUICK]
        return [command, "nano_busi_lora", "--out", str(out), "--set", *settings]

    def of(command: str, path: Path, *more: object) -> list[str]:
        return [command, str(path), *map(str, more)]

    def study(*more: object) -> list[str]:
        words = ["fetal_gauge_tuning", "--scale", "nano", "--wandb", "disabled", "--data", str(prepared)]
        return ["reproduce", *words, *map(str, more)]

    made = beside / "study"
    if not (made / "rows").exists() and folder.name != "rows":
        shutil.copytree(folder, made / "rows" / "nano")

    return {
        "reproduce": [
            study("--out", beside / "empty", "--reuse", folder, "--collect"),
            study("--out", made, "--resume"),
            study("--out", folder, "--resume", "--collect"),
        ],
        "predict": [of("predict", folder, "--from", table, "--images", beside, "--out", beside / "a.csv")],
        "eval": [of("eval", folder), of("eval", recipe), over("checkpoint"), over("weights"), over("adapter")],
        "export": [of("export", folder, "--out", out, "--no-proof")],
        "chat": [of("chat", folder, "--media", picture, "--question", "What?")],
        "report": [of("report", folder), of("report", folder, folder, "--out", out)],
        "audit": [of("audit", folder)],
        "compare": [of("compare", folder, folder)],
        "explain": [
            of("explain", folder),
            of("explain", folder, "--numbers"),
            of("explain", folder, *_first_id(folder)),
        ],
        "judge": [of("judge", folder)],
        "view": [of("view", folder)],
        "power": [["power", "--gain", "0.1", "--run", str(folder)]],
        "doctor": [of("doctor", recipe)],
        "validate": [of("validate", recipe), over("checkpoint", "validate")[:2] + over("checkpoint")[4:]],
        "run": [of("run", recipe), [*over("checkpoint", "run")[:3], str(folder), "--resume"]],
        "train": [of("train", recipe), over("checkpoint", "train")],
        "show": [of("show", recipe)],
        "score": [["score", "busi", "--predictions", str(folder / "final"), "--questions", str(folder)]],
        "init": [["init", str(out), "--data", str(folder)]],
        "prepare": [["prepare", "vqa", "--from", str(folder), "--out", str(out)]],
        "oracle": [["oracle", "ctlesionvqa", "--questions", str(folder)]],
        "prompts": [["prompts", "u2_bench", "--from", str(folder), "--out", str(out / "p.yaml")]],
        "list": [["list", "models", "--all"]],
    }


def _first_id(folder: Path) -> list[str]:
    """Returns the id of the first question that a run answered; nothing for a folder without answers."""
    file = folder / "final" / "predictions.jsonl"
    lines = file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else []
    found = [json.loads(line)["question_id"] for line in lines[:1]]
    return [each for each in found if not str(each).startswith("-")]


@pytest.fixture
def walked(tmp_path: Path, prepared_tiny: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs every command over a folder, from within it, and returns what each said."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def walk(folder: Path) -> dict[str, str]:
        monkeypatch.chdir(folder)
        calls = commands_over(folder, tmp_path, prepared_tiny)
        # What a user lets `check` look at, he names.
        assert calls.keys() == COMMANDS.keys() - {"check"}
        told: dict[str, str] = {}
        for name, ways in calls.items():
            for words in ways:
                shutil.rmtree(tmp_path / "out", ignore_errors=True)
                began = time.monotonic()
                try:
                    main(words)
                except SystemExit as error:
                    raise AssertionError(words) from error
                said = "".join(capsys.readouterr())
                assert time.monotonic() - began < ALL_S, words
                assert "\x1b" not in said
                assert "\x9b" not in said
                told[name] = told.get(name, "") + said
        return told

    return walk


@pytest.mark.parametrize(
    ("kind", "how"),
    in_suites(
        product(("run", "export"), ("relative", "absolute", "extends")),
        plain=(("run", "relative"), ("export", "absolute"), ("run", "extends")),
    ),
)
def test_no_command_runs_code_of_a_folder_that_it_reads(
    kind: str, how: str, run: Path, export: Path, tmp_path: Path, walked: Callable[[Path], dict[str, str]]
) -> None:
    folder, marker = tmp_path / "hostile", tmp_path / "marker"
    shutil.copytree(run if kind == "run" else export, folder)
    armed(folder, marker, how=how)
    told = walked(folder)
    assert not marker.exists()
    assert not [name for name in sys.modules if name.endswith(".evil")]
    asked = folder / "code" if how == "absolute" else folder
    for name in (
        "predict",
        "eval",
        "validate",
        "run",
        "train",
        "doctor",
        "show",
        *(["export"] if kind == "run" else []),
    ):
        assert f"asks for code in the folder {asked} (" in told[name], name
        assert f"--plugins {asked}" in told[name], name
        assert "models/evil.py" in told[name], name


def test_the_user_who_names_the_code_runs_it(run: Path, tmp_path: Path, capsys: Capture) -> None:
    folder, marker = tmp_path / "hostile", tmp_path / "marker"
    shutil.copytree(run, folder)
    armed(folder, marker, how="absolute")
    assert main(["--plugins", str(folder / "code"), "eval", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert marker.exists(), capsys.readouterr().err


def test_a_command_started_in_a_hostile_folder_imports_nothing_from_it(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for name in ("argparse", "yaml", "multiprocessing", "socket", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    # `prepare -j 2` starts a process of its own, whose path of imports would begin with the working directory.
    asked = "import os, subprocess, sys; print(sys.path[0], os.environ['PYTHONSAFEPATH'])"
    code = (
        "import sys; sys.path.pop(0); import subprocess; from medtune.trainer.commands import cli; "
        f"cli.main = lambda: subprocess.run([sys.executable, '-c', {asked!r}]).returncode; cli.start()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout
    assert not marker.exists()


@pytest.fixture(scope="module")
def adapter(run: Path) -> Path:
    return run / "checkpoints" / "adapter"


def changed_adapter(adapter: Path, folder: Path, **settings: object) -> Path:
    shutil.copytree(adapter, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder


def test_escape_sequences_of_an_adapter_reach_no_page_and_no_terminal(
    adapter: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    hostile = changed_adapter(adapter, tmp_path / "adapter", base_model_name_or_path=f"base{ESCAPE}")
    out = tmp_path / "out"
    with pytest.warns(UserWarning, match="says that it was trained on"):
        assert Nano(prepared_tiny).here("eval", out, f"model.adapter={hostile}", *LIKELIHOOD) == 0
    said = "".join(capsys.readouterr())
    pages = [(out / name).read_text("utf-8") for name in ("report.md", "report.html")]
    assert all("trained on base" in page for page in pages)
    assert not [text for text in (said, *pages) if {"\x1b", "\x9b", "\x07"} & set(text)]


@pytest.mark.parametrize("settings", [{"target_modules": BOMB}, {"rank_pattern": {BOMB: 4}}, {"exclude_modules": BOMB}])
def test_expressions_of_an_adapter_do_not_hang(
    settings: dict[str, object], adapter: Path, prepared_tiny: Path, tmp_path: Path
) -> None:
    hostile = changed_adapter(adapter, tmp_path / "adapter", **settings)
    began = time.monotonic()
    assert Nano(prepared_tiny).here("eval", tmp_path / "out", f"model.adapter={hostile}", *LIKELIHOOD) in (0, 1)
    assert time.monotonic() - began < ALL_S


def test_an_expression_of_a_recipe_does_not_hang(prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    began = time.monotonic()
    status = Nano(prepared_tiny).here("run", tmp_path / "run", f"model.tuning.language.lora.targets='{BOMB}'")
    assert "model.tuning.language.lora.targets: " in refused(status)
    assert time.monotonic() - began < ALL_S


def test_a_checkpoint_whose_template_never_ends_is_refused(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medtune.models.sequence.template_limits.CPU_S", 1)
    weights = write_checkpoint("lfm2_vl", tmp_path / "checkpoint")
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    (weights / "chat_template.jinja").write_text(loop)
    settings = ("model.name=auto", f"model.weights={weights}")
    assert Nano(prepared_tiny).here("eval", tmp_path / "eval", *settings) == 1
    assert "its chat template is not to be used: it does not end" in capsys.readouterr().err
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", *QUICK, *settings]) == 1
    assert "its chat template is not to be used" in "".join(capsys.readouterr())
    index = weights / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../outside.safetensors"}}))
    assert Nano(prepared_tiny).here("eval", tmp_path / "index", *settings) == 1
    assert "lies outside the folder" in capsys.readouterr().err


def test_escape_sequences_of_a_prepared_folder_reach_no_page_and_no_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    rows = ["image,question,options,answer,patient,split,ward"]
    for number, picture in enumerate(pictures(raw, 24)):
        split = "train" if number < 12 else "val" if number < 16 else "test"
        options = [f"cyst{ESCAPE}", "nodule"]
        asked = f"Which{ESCAPE} is it?,{'|'.join(options)},{options[number % 2]}"
        rows.append(f"{picture},{asked},p{number},{split},ward{ESCAPE} {number % 2}")
    (raw / "data.csv").write_text("\n".join(rows), "utf-8")
    assert main(["prepare", "vqa", "--from", str(raw), "--out", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    (out / "manifest.json").write_text(json.dumps({**manifest, "title": f"A{ESCAPE} set", "licence": ESCAPE}), "utf-8")
    settings = ["--set", "data.benchmark=vqa", f"data.root={out}", *QUICK]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["validate", "nano_busi_lora", *settings]) == 0
    assert main(["run", "nano_busi_lora", "--out", str(run), *settings]) == 0
    for words in (["report", str(run)], ["audit", str(run)]):
        assert main(words) == 0, words
    predictions = str(run / "final" / "predictions.jsonl")
    assert main(["score", "vqa", "--predictions", predictions, "--questions", str(out)]) == 0
    said = "".join(capsys.readouterr())
    pages = [(run / name).read_text("utf-8") for name in ("report.md", "report.html")]
    assert all("cyst" in page for page in pages)
    assert not [text[:200] for text in (said, *pages) if {"\x1b", "\x9b", "\x07"} & set(text)]


@pytest.mark.parametrize("kind", ["run", "export"])
def test_a_folder_that_is_read_names_no_server(
    kind: str, run: Path, export: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures and a key of the user must not go to an address that stands in a stranger's recipe."""
    asked: list[object] = []

    def connect(*arguments: object, **_: object) -> None:
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    folder = tmp_path / "hostile"
    shutil.copytree(run if kind == "run" else export, folder)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    server = {"base_url": "https://stranger.example/v1", "model": "m", "key_env": "HOME"}
    recipe["model"] = {"name": "endpoint", "answer_format": recipe["model"]["answer_format"], "endpoint": server}
    recipe["eval"] |= {"judge": {"endpoint": server}, "readings": ["generation"]}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    PIL.Image.new("RGB", (32, 32)).save(tmp_path / "p.png")
    (tmp_path / "t.csv").write_text("image,question\np.png,Is it a cyst?\n")
    commands = [
        ["predict", str(folder), "--from", str(tmp_path / "t.csv"), "--images", str(tmp_path), "--out", "a.csv"],
        ["eval", str(folder / "recipe.yaml"), "--out", str(tmp_path / "out")],
        *([["eval", str(folder)], ["audit", str(folder)], ["judge", str(folder)]] if kind == "run" else []),
    ]
    for words in commands:
        assert main(words) == 1, words
        said = capsys.readouterr().err
        # An export's own weights stand in no recipe of a served model, which is refused for that.
        assert "asks the server https://stranger.example/v1" in said or (kind, words[0]) == ("export", "predict"), words
        assert "if you know this one, name it: --" in said or (kind, words[0]) == ("export", "predict"), words
    assert asked == []
