"""A desk on which a page's commands run: every name that pages use for a folder of the reader's stands for a small one.

What pages share (raw files, prepared folders, two runs, an export) is made once, when a page first needs it, and lies
on each desk as a link. So does a simulation that a page prepares by the same command.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from medtune.data import catalog
from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from tests.examples import write_example
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.ranks import start_server
from tests.trainer.own_data.forms import picture
from tests.website.blocks import words

TWINS = (
    (r"pocket_ct", "nano_pocket_ct"),
    (r"pocket_video", "nano_pocket_video"),
    (r"pocket", "nano_pocket"),
    (r"qwen25vl", "nano_qwen25vl"),
    (r"qwen3vl", "nano_qwen3vl"),
    (r"radfm", "nano_radfm"),
    (r"medgemma", "nano_gemma3"),
)
"""The tiny, random model in the place of a recipe's own, by the beginning of the recipe's name."""
MAX_STEPS, EVERY_STEPS = "train.max_steps=1", "eval.every_steps=1"
"""What takes seconds, also where the page names another number."""
QUICK = (
    "log.wandb=disabled", "train.precision=32-true", "eval.max_new_tokens=2", "eval.val_questions=12",
    "eval.questions=4", "eval.conditions=[image]", "train.batch_size=2",
    "train.micro_batch_size=2", "data.workers=0", "model.dtype=float32", "eval.protocol=recipe",
)  # fmt: skip
"""What takes seconds, where the page says nothing else."""
ASKS_A_RECIPE = ("run", "train", "eval", "validate", "doctor")
LEARNS = ("run", "train", "validate", "doctor")
PATIENTS = {"fetal_phantom": "12"}
FEWEST_PATIENTS = "6"
"""How many patients a simulation draws; of the first, so that a question is asked twenty times."""
SIMULATED = {
    "prepared/fetal_phantom": ("fetal_gauge", "fetal_phantom"),
    "prepared/fetal_sweep": ("fetal_sweep", "fetal_sweep"),
    "prepared/ct_phantom": ("ctlesionvqa", "ct_phantom"),
}
"""The benchmark and the source of a simulation that pages share, which takes up to 6 s."""


class Desk:
    """A folder with what the pages name, and the commands that run there.

    Args:
        folder: The empty folder.
        shared: The folder in which all desks keep what they share.
    """

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder = folder
        self._shared = shared
        self._runs = 0

    def lay(self, text: str, but: Collection[str] = ()) -> None:
        """Puts onto the desk what a text names."""
        for name in [*MADE, *ALSO_CALLED]:
            if name not in but and re.search(rf"(?<![\w/.]){re.escape(name)}(?![\w.])", text):
                self._link(name)

    def run(self, command: str, added: Sequence[str] = ()) -> int:
        """Runs a command of medtune as it stands, but for the size of what it does, and returns its status."""
        said = self.small(command, added)
        place = said.index("--out") if "--out" in said else len(said)
        asked, out = [*said[:place], *said[place + 2 :]], "".join(said[place + 1 : place + 2])
        if out in SIMULATED and asked == _simulation(out):
            self.lay(out)
            return 0
        self.lay(" ".join(asked))
        if "--cache" in said:
            start_server()  # The command would start one that imports nearly as much, for itself alone.
        return main([each if each != "QUESTION_ID" else self._question() for each in said])

    def small(self, command: str, added: Sequence[str] = ()) -> list[str]:
        """Returns the words behind `medtune` with a tiny model, few patients and one process."""
        said = ["pocket_busi_lora" if word == "RECIPE" else word for word in words(command)[1:]]
        said = [word for word, before in zip(said, ["", *said], strict=False) if "-j" not in (word, before)]
        if said[:1] == ["prepare"]:
            said = self._small_data(said)
        if said[:1] and said[0] in ASKS_A_RECIPE:
            said = [*said, *self._small_model(said)]
        if said[:1] and said[0] in ("run", "train", "eval") and "--out" not in said:
            self._runs += 1  # Two evaluations may end within the second that names their folders.
            added = [*added, "--out", f"runs/{self._runs}"]
        return [*said, *added]

    def _small_data(self, said: list[str]) -> list[str]:
        out = self.folder / said[said.index("--out") + 1] if "--out" in said else None
        if out is not None and out.is_symlink():
            out.unlink()  # A page prepares a folder itself that others are given.
        source = said[said.index("--source") + 1] if "--source" in said else ""
        said = [f"raw/{source}" if word == "SETS" else word for word in said]
        return [*said, "--limit", PATIENTS.get(source, FEWEST_PATIENTS)] if source and "--from" not in said else said

    def _small_model(self, said: list[str]) -> list[str]:
        settings = quick(said[1], *said)
        if said[1] in catalog.names(catalog.RECIPES) and not any(word.startswith("data.root=") for word in said):
            # Named, so that it is laid onto the desk.
            settings.append(f"data.root={read_recipe(said[1]).data.root}")
        return ["--set", *settings] if settings else []

    def _link(self, name: str) -> None:
        made, link = self._shared / ALSO_CALLED.get(name, name), self.folder / name
        with contextlib.chdir(self._shared):
            make(ALSO_CALLED.get(name, name))
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(made)

    def _question(self) -> str:
        """Returns the id of a question of the page's own data, or of the run's."""
        root = self.folder / "prepared" / "own"
        return open_prepared(root if root.exists() else self._shared / "prepared" / "busi").questions("test")[0].id


def make(name: str) -> None:
    """Makes a thing in the working directory, and before it what it needs; nothing where it is there."""
    folder = Path.cwd() / name
    if not folder.exists():
        for other in NEEDS.get(name, ()):
            make(other)
        folder.parent.mkdir(parents=True, exist_ok=True)
        MADE[name](folder)


def quick(recipe: str, *said: str) -> list[str]:
    """Returns the settings with which a recipe takes seconds; none where the command names a run."""
    twins = [twin for name, twin in TWINS if re.match(name, recipe)]
    if not twins:
        return []
    given = {word.partition("=")[0] for word in said if "=" in word}
    # A field that the page sets stays as the page says.
    settings = [each for each in QUICK if each.partition("=")[0] not in given]
    stages = read_recipe(recipe).train.stages
    steps = [f"train.stages.{number}.max_steps=1" for number in range(len(stages))] or [MAX_STEPS]
    return [f"model.name={twins[0]}", *([*steps, EVERY_STEPS] if said[0] in LEARNS else ()), *settings]


def _prepared(*arguments: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        assert main(["prepare", *arguments, "--out", str(folder)]) == 0

    return make


def _simulation(name: str) -> list[str]:
    """Returns the command that prepares a simulation, without its folder."""
    benchmark, source = SIMULATED[name]
    return ["prepare", benchmark, "--source", source, "--limit", PATIENTS.get(source, FEWEST_PATIENTS)]


def _checkpoint(folder: Path) -> None:
    folder.mkdir()
    write_checkpoint("lfm2_vl", folder)


def _run(recipe: str, *settings: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        said = ["run", recipe, "--out", str(folder), "--no-doctor", "--set", "data.benchmark=busi"]
        given = quick(recipe, "run", "eval.questions=20")
        assert main([*said, "data.root=prepared/busi", *given, "eval.questions=20", *settings]) == 0

    return make


def _exported(run: str, *arguments: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        assert main(["export", run, "--out", str(folder), "--no-proof", *arguments]) == 0

    return make


def _of(source: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        write_example(source, folder)

    return make


def _table(file: Path) -> None:
    """Writes the table of README and of benchmarks.md, with its images in `pictures` beside it."""
    lines = ["image,question,answer,PID"]
    for number in range(24):
        picture(file.parent / "pictures" / f"{number:02}.png", number)
        lines.append(f"{number:02}.png,Is a cyst visible?,{('yes', 'no')[number % 2]},P{number}")
    file.write_text("\n".join(lines) + "\n", "utf-8")


MADE: dict[str, Callable[[Path], None]] = {
    "BUSI_FOLDER": _of("busi"),
    "U2_BENCH": _of("u2_bench"),
    "REXSONOVQA": _of("rexsonovqa"),
    "CTLESIONVQA": _of("ctlesionvqa"),
    "SCANS": _of("ct_masks"),
    "PREDICTED": _of("ct_masks"),
    "RAW": _of("ctlesionvqa"),
    "raw/fetal_gauge_rebuilt": _of("fetal_gauge_rebuilt"),
    "raw/u2_bench_rebuilt": _of("u2_bench_rebuilt"),
    "raw/vqa_rad": _of("vqa_rad"),
    "data.csv": _table,
    "pictures": _table,
    "prepared/busi": _prepared("busi", "--from", "BUSI_FOLDER"),
    "prepared/mine": _prepared("vqa", "--from", "data.csv", "--images", "pictures", "--columns", "patient=PID"),
    "prepared/vqa_rad": _prepared("vqa_rad", "--from", "raw/vqa_rad"),
    **{name: _prepared(*_simulation(name)[1:]) for name in SIMULATED},
    "ORGANISATION/MODEL": _checkpoint,
    "RUN": _run("pocket_busi_lora"),
    "RUN_B": _run("pocket_busi_lora", "train.seed=1"),
    "RUN_C": _run("qwen25vl_7b_fetal_gauge_lora"),
    "EXPORTED_FOLDER": _exported("RUN"),
    "PEFT_FOLDER": _exported("RUN_C", "--adapter"),
}
"""What makes the folder or file of a name."""
DRAWN = ("data.csv", "pictures")
"""What a listing draws itself."""
NEEDS = {
    "pictures": ("data.csv",),
    "prepared/busi": ("BUSI_FOLDER",),
    "prepared/mine": ("data.csv",),
    "prepared/vqa_rad": ("raw/vqa_rad",),
    "RUN": ("prepared/busi",),
    "RUN_B": ("prepared/busi",),
    "RUN_C": ("prepared/busi",),
    "EXPORTED_FOLDER": ("RUN",),
    "PEFT_FOLDER": ("RUN_C",),
}
"""What has to be there before."""
ALSO_CALLED = {
    "prepared/vqa": "prepared/mine",
    "prepared/fetal_gauge": "prepared/fetal_phantom",
    "prepared/ctlesionvqa": "prepared/ct_phantom",
    "runs/RECIPE/RUN": "RUN",
    "runs/RECIPE/TIME": "RUN",
    "runs/pocket_busi_lora/RUN": "RUN",
    "runs/first": "RUN",
    "RUN_A": "RUN",
}
"""What pages call a thing of another name."""
