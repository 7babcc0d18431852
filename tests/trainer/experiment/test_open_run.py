"""Tests that every command can open a run, also after the run or its data have been moved."""

import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.experiment import open_run
from medtune.trainer.runs.finished_run import open_finished
from medtune.trainer.runs.run_folder import RunFolder
from tests.test_layout import ROOMS
from tests.trainer.conftest import QUICK, Capture, Told, json_of

SETTINGS = (*QUICK, "train.max_steps=2", "eval.readings=[likelihood]", "model.tuning.projector.lr=0.5")


@pytest.fixture(scope="module")
def moved(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with runs/one, runs/two, and the prepared folder that both name by a relative path."""
    there = tmp_path_factory.mktemp("work") / "here"
    shutil.copytree(prepared_tiny, there / "prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(there)
        for name, seed in (("one", 0), ("two", 1)):
            settings = ["--set", "data.root=prepared", f"train.seed={seed}", *SETTINGS]
            assert main(["run", "nano_busi_lora", "--out", f"runs/{name}", *settings]) == 0
    return Path(shutil.move(there, there.with_name("moved")))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = {
    "audit": ("audit", "{one}"),
    "chat": ("chat", "{one}", "--media", "{picture}", "--question", "What is it?"),
    "compare": ("compare", "{one}", "{two}"),
    "export": ("export", "{one}", "--out", "exported", "--no-proof"),
    "power": ("power", "--gain", "0.2", "--run", "{one}"),
    "report": ("report", "{one}"),
    "reports": ("report", "{one}", "{two}", "--out", "several"),
}


WITHOUT_A_MODEL = {
    "audit": ("audit", "busi", "--questions", "{data}"),
    "compare": ("compare", "{one}", "{two}"),
    "power": ("power", "--gain", "0.2", "--run", "{one}"),
    "prepare": ("prepare", "busi", "--from", "{raw}", "--out", "prepared"),
    "report": ("report", "{one}"),
    "score": ("score", "busi", "--predictions", "{one}/final/predictions.jsonl", "--questions", "{data}"),
}
LARGE = ("torch", "lightning", "transformers", "peft", "torchvision", "torchmetrics", "bitsandbytes", "matplotlib")
RARE = ("pydicom", "nibabel", "av", "monai", "wandb", "deepspeed", "timm")
ADAPTERS = ("peft", "bitsandbytes")
WITHOUT_USE = ("sklearn", "pandas", "datasets", "torch._inductor.compile_fx", *ADAPTERS)


def test_what_asks_no_model_imports_no_torch(moved: Path, tiny_busi: Path, elsewhere: Path) -> None:
    """In one new Python: what is imported is told behind each command."""
    runs, data = moved / "runs", moved / "prepared"
    places = {"one": runs / "one", "two": runs / "two", "raw": tiny_busi, "data": data}
    words = {name: [word.format(**places) for word in each] for name, each in WITHOUT_A_MODEL.items()}
    code = (
        "import sys; from medtune.trainer.commands.cli import main; "
        f"told = [(name, main(each), [large for large in {LARGE + RARE!r} if large in sys.modules]) "
        f"for name, each in {words!r}.items()]; print(told)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str([(name, 0, []) for name in words]), done.stderr
    assert "logistic regression on the red box's place and size" in done.stdout
    assert "logistic regression on the histogram of grey values" in done.stdout


UNUSED = (
    "av", "bert_score", "bitsandbytes", "deepspeed", "gguf", "imagehash", "monai", "nibabel", "openai", "openpyxl",
    "pydicom", "imagecodecs", "wandb",
)  # fmt: skip
"""What reads or writes other files, asks or judges elsewhere, or spreads a run: without it a nano run has to start."""


@pytest.mark.slow
def test_a_run_imports_nothing_that_it_lacks(moved: Path, elsewhere: Path) -> None:
    """Before it starts it imports of these only torch; what it has no use for may be missing; no room is bare."""
    settings = ["--set", f"data.root={moved / 'prepared'}", "model.tuning.language.mode=full", *SETTINGS]
    words = ["run", "nano_busi_lora", "--out", "one", *settings]
    code = (
        "import sys, medtune.trainer.experiment.run; from medtune.trainer.commands.cli import main; "
        f"begun = [name for name in ('torch', *{(*RARE, *WITHOUT_USE, *UNUSED)!r}) if name in sys.modules]; "
        f"sys.modules.update(dict.fromkeys({UNUSED!r})); "
        "import medtune.trainer.commands.validate, medtune.trainer.commands.score; "
        "from medtune.models.assemble import zoo_entry; zoo_entry('nano_pocket').assemble(0); "
        f"status = main({words!r}); "
        f"print(begun, status, [name for name in {('peft', *ROOMS)!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["['torch'] 0 []"], done.stderr[-1000:]


@pytest.mark.soak
def test_a_run_imports_peft_where_it_adapts(moved: Path, elsewhere: Path) -> None:
    """Bitsandbytes, which peft imports, may be missing on a machine."""
    settings = ["--set", f"data.root={moved / 'prepared'}", "model.tuning.language.mode=lora", *SETTINGS]
    words = ["run", "nano_busi_lora", "--out", "one", *settings]
    code = (
        f"import sys; from medtune.trainer.commands.cli import main; status = main({words!r}); "
        f"print(status, [name for name in {ADAPTERS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {[name for name in ADAPTERS if find_spec(name)]}", done.stderr


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_moved_run_is_read_from_another_working_directory(
    command: tuple[str, ...], moved: Path, elsewhere: Path
) -> None:
    picture = elsewhere / "picture.png"
    PIL.Image.new("RGB", (64, 48)).save(picture)
    places = {"one": moved / "runs" / "one", "two": moved / "runs" / "two", "picture": picture}
    assert main([word.format(**places) for word in command]) == 0


def test_judge_opens_a_moved_run_as_well(moved: Path, elsewhere: Path, capsys: Capture) -> None:
    judge = ("--set", "endpoint.base_url=http://127.0.0.1:9/v1", "endpoint.model=none")
    assert main(["judge", str(moved / "runs" / "one"), *judge]) == 1
    assert "busi: no answer of this benchmark needs a judge" in capsys.readouterr().err


def test_an_opened_run_is_what_it_was_when_it_began(moved: Path, elsewhere: Path) -> None:
    root = moved / "runs" / "one"
    experiment, recorded = open_run(root), json_of(root / "environment.json")
    assert experiment.prepared.root == moved / "prepared"
    assert experiment.about == {name: recorded[name] for name in experiment.about}
    assert "trained_on" in experiment.about
    saved = RunFolder(root).read_recipe()
    assert replace(saved, data=replace(saved.data, root=experiment.prepared.root)) == experiment.recipe


def test_questions_name_the_data_of_a_run_that_lies_apart_from_them(moved: Path, elsewhere: Path) -> None:
    apart = Path(shutil.copytree(moved / "runs" / "one", elsewhere / "apart"))
    with pytest.raises(FileNotFoundError, match="prepared"):
        open_run(apart)
    assert open_finished(apart, questions=moved / "prepared").prepared.root == moved / "prepared"


def test_other_data_at_the_place_are_refused(moved: Path, tiny_busi: Path, elsewhere: Path, refused: Told) -> None:
    prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=elsewhere / "prepared", seed=5)
    # The run's own data, above it, count before others of that name in the working directory.
    assert open_finished(moved / "runs" / "one").prepared.root == moved / "prepared"
    shutil.rmtree(moved / "prepared")
    for command in (("audit", "{one}"), ("compare", "{one}", "{two}"), ("power", "--gain", "0.2", "--run", "{one}")):
        places = {name: moved / "runs" / name for name in ("one", "two")}
        assert "holds other data" in refused(main([word.format(**places) for word in command]))


def test_the_environment_names_the_commit_of_the_checkout(moved: Path) -> None:
    if not (Path(__file__).resolve().parents[3] / ".git").exists():
        pytest.skip("this copy of the tree is no checkout")
    assert RunFolder(moved / "runs" / "one").recorded()["git_commit"]
