"""The folder of a run: the paths of its files, its recipe, and the facts recorded about its data when it began."""

import functools
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Required

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from medtune.data.files import replace_file
from medtune.data.prepared.find import found_data
from medtune.data.types import MediaGroup
from medtune.eval.data_label import DataLabel, recorded_label
from medtune.eval.learnt import NOTHING, Learnt, asked_again, read_learnt
from medtune.eval.results.typed_json import AGAIN, read_json
from medtune.models.weights.whole_folders import ABOUT, BEFORE, is_checkpoint
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.seen import DATA, changes
from medtune.version import __version__

PACKAGES = (
    "torch", "lightning", "transformers", "peft", "timm", "bitsandbytes", "deepspeed", "numpy", "scipy", "wandb",
    "openai",
)  # fmt: skip

DataFacts = Mapping[str, Mapping[str, Any]]
"""Facts about prepared folders, as `data_facts` returns them."""
LAUNCH = "launch"
"""The folder inside a run folder that launchers write into before the run begins."""
FIRST_FOLD = "fold-1"
NO_CONTENTS: Mapping[str, str] = {}
STATE_PREFIX = "state_step_"
_BEFORE_VALIDATION = "_before_validation"
STATE_FILE = "state.json"
"""The file of a saved state with everything but its tensors."""


def environment(command: Sequence[str]) -> dict[str, object]:
    """Returns the content of environment.json: the command, versions, devices, and the git commit of medtune."""
    # `prepare` and `compare` read the files of runs as well, and use no torch.
    import torch

    return {
        "command": list(command),
        "medtune": __version__,
        "git_commit": _git_commit(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu_threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "packages": {name: _version(name) for name in PACKAGES},
    }


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _git_commit() -> str | None:
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file under a temporary name and renames it, so that no partial file is ever left."""
    replace_file(path, [json.dumps(content, indent=1).encode() + b"\n"])


@with_config(ConfigDict(extra="allow"))
class Recorded(TypedDict, total=False):
    """What is read of environment.json; it holds more, which is kept."""

    recipe: Required[str]
    data_hash: Required[str]
    data: dict[str, dict[str, Any]]
    commits: dict[str, str]
    limit: int | None
    trained_on: str
    changed_data: str


class RunFolder:
    """The paths of one run, and the files of it that can be read without opening its data."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipe = root / "recipe.yaml"
        self.environment = root / "environment.json"
        self.weights = root / "weights.json"
        self.doctor = root / "doctor.json"
        self.zero_shot = root / "zero_shot"
        self.final = root / "final"
        self.checkpoints = root / "checkpoints"
        self.results = root / "results.json"
        self.audit = root / "audit.json"
        # The charges of an endpoint for the run's answers.
        self.spending = root / "spending.jsonl"
        # The answers that the model gave only for the audit.
        self.audit_answers = root / "audit"
        # The best trained weights in PEFT's format, or the reason why that format has none.
        self.adapter = self.checkpoints / "adapter"
        # The weights that the training begins with, where adapters begin with PiSSA.
        self.start = self.checkpoints / "start.safetensors"
        self.learnt = self.checkpoints / "learnt.json"

    @property
    def commits(self) -> dict[str, str]:
        """The commit of each repository of the hub that the run read weights from, from environment.json."""
        if not self.environment.is_file():
            return {}
        noted: dict[str, str] = self.recorded().get("commits", {})
        return noted

    def note_commits(self, commits: Mapping[str, str]) -> None:
        """Writes commits into environment.json, so that the run reads the same weights when it goes on."""
        if commits and self.environment.is_file():
            said = self.recorded()
            write_json(self.environment, {**said, "commits": {**commits, **self.commits}})

    @property
    def best(self) -> Path:
        """The trained weights that were best on the validation questions, a file or a folder."""
        return self.trained("best")

    @property
    def has_best(self) -> bool:
        if is_checkpoint(self.best):
            return True
        if (first := self.root / FIRST_FOLD).is_dir():
            raise ValueError(
                f"{self.root} pools the answers of a cross-validation, whose runs have the weights; name one of them, "
                f"for instance {first}"
            )
        return False

    def trained(self, name: str) -> Path:
        """Returns the checkpoint of a name: a file, or a folder that all ranks wrote; the file if there is none yet.

        There are two where the run was resumed with another strategy and killed before it removed the older one.
        """
        places = (self.trained_file(name), self.trained_folder(name), self.trained_folder(name + BEFORE))
        there = [path for path in places if is_checkpoint(path)]
        return max(there, key=_written_ns, default=places[0])

    def trained_file(self, name: str) -> Path:
        return self.checkpoints / f"{name}.safetensors"

    def trained_folder(self, name: str) -> Path:
        """Returns where a checkpoint lies that all ranks wrote together, each its part."""
        return self.checkpoints / name

    @property
    def last(self) -> Path:
        """The trained weights after the last step, a file or a folder."""
        return self.trained("last")

    @property
    def early_stops(self) -> dict[int, str]:
        """For each stage that ended before its last step, by its number: at which step, and why."""
        path = self.checkpoints / "early_stops.json"
        return read_json(path, dict[int, str]) if path.is_file() else {}

    def note_early_stop(self, stage: int, why: str) -> None:
        write_json(self.checkpoints / "early_stops.json", {**self.early_stops, stage: why})

    def validation(self, step: int) -> Path:
        """Returns the folder of answers and scores on the validation questions after a step."""
        return self.root / "validation" / f"step_{step:06d}"

    def stage_weights(self, number: int) -> Path:
        """Returns the last weights of a stage, from which the next stage begins, a file or a folder."""
        return self.trained(f"stage_{number}")

    def states(self) -> list[Path]:
        found = [path for path in self.checkpoints.glob(f"{STATE_PREFIX}*") if step_of(path) is not None]
        return sorted(found, key=lambda path: (step_of(path) or 0, not path.name.endswith(_BEFORE_VALIDATION)))

    def state(self, step: int, *, validation_due: bool) -> Path:
        """Returns the path of the state after a step, whose validation was stopped or is done."""
        return self.checkpoints / f"{STATE_PREFIX}{step:06d}{_BEFORE_VALIDATION if validation_due else ''}"

    def saved_state(self) -> Path | None:
        """Returns the folder of the newest state to resume from; None if there is none."""
        return next(reversed(self.states()), None)

    def saved_step(self) -> int:
        """Returns the optimizer step of the saved state; 0 if there is none."""
        state = self.saved_state()
        return 0 if state is None else step_of(state) or 0

    def validation_due(self) -> bool:
        """Returns whether the run was stopped in the validation after the saved step, which is then done anew."""
        state = self.saved_state()
        return state is not None and state.name.endswith(_BEFORE_VALIDATION)

    def refuse_used(self, *, is_ours: bool = False) -> None:
        """Refuses a folder that holds more than a launcher, or a run that was killed before it had begun, leaves there.

        Args:
            is_ours: Whether this command itself wrote the environment.json that is there.
        """
        root = self.root
        if not root.exists():
            return
        if not root.is_dir() or any(not self._is_before_begin(each, is_ours=is_ours) for each in root.iterdir()):
            raise FileExistsError(
                f"{root} is not empty; name another folder with --out, or continue that run with --resume"
            )

    def _is_before_begin(self, path: Path, *, is_ours: bool) -> bool:
        # The recipe is written last; `replace_file` begins the names of what it has not finished with a dot.
        if path == self.environment and not self.recipe.exists():
            return is_ours or b'"medtune"' in path.read_bytes()
        unfinished = (f".{self.environment.name}.", f".{self.recipe.name}.")
        return path.name == LAUNCH or path.name.startswith(unfinished)

    def read_recipe(self) -> Recipe:
        if not self.recipe.is_file():
            raise FileNotFoundError(f"{self.root}: no run is here (no recipe.yaml); give the folder that a run wrote")
        return read_recipe(str(self.recipe))

    def recorded(self) -> Mapping[str, Any]:
        """Returns the content of environment.json: machine, versions, and facts about the recipe and its data."""
        return read_json(self.environment, Recorded)

    def found_data(self, data_root: Path, *, questions: Path | None = None) -> Path:
        """Returns the path of the run's prepared folder, wherever it or the run was moved (`data.prepared.find`)."""
        return found_data(data_root, run=self.root, data_hash=self._data_hash, questions=questions)

    def needed_data(self, data_root: Path, *, questions: Path | None = None) -> Path:
        """Returns the path of the run's prepared folder, which has to be there."""
        found = self.found_data(data_root, questions=questions)
        if questions is None and not found.is_dir():
            raise FileNotFoundError(
                f"{self.root}: its prepared folder {data_root} is not there, and none beside the run holds the same "
                f"data (hash {self._data_hash[:12]}). Name it: --questions DIR"
            )
        return found

    @property
    def _data_hash(self) -> str:
        return str(self.recorded()["data_hash"]) if self.environment.is_file() else ""

    def recorded_label(self) -> DataLabel:
        return recorded_label(self.recorded())

    def read_learnt(self) -> Learnt:
        """Returns what the run was trained on so far; nothing if it has not begun to train."""
        facts = read_json(self.learnt, dict[str, str]) if self.learnt.is_file() else {}
        try:
            return read_learnt(facts) or NOTHING
        except ValueError as error:
            raise ValueError(f"{self.learnt}: not what a run has learnt ({error}). {AGAIN}") from error

    def note_learnt(self, learnt: Learnt) -> None:
        """Writes what the run is trained on into learnt.json, beside what stands there."""
        self.checkpoints.mkdir(exist_ok=True)
        write_json(self.learnt, learnt.joined([self.read_learnt()]).facts())

    def changed_data(self, now: DataFacts) -> list[str]:
        """Returns what is different in the data since the run began, or since a change of them was accepted.

        Only the prepared folders that `now` names are compared.
        """
        return changes(self.data_before(), now)

    def data_before(self) -> DataFacts:
        """Returns the facts about the data that the run recorded; nothing if there is no run yet."""
        if not self.environment.is_file():
            return {}
        recorded = self.recorded()
        found: dict[str, Mapping[str, Any]] = dict(recorded.get("data", {}))
        return {**found, "data.root": {**found.get("data.root", {}), "hash": recorded["data_hash"]}}

    def refuse_other_data(self, root: Path, now: DataFacts) -> None:
        """Refuses prepared folders with other data than the run has seen.

        Args:
            root: The evaluated prepared folder, for the message.
        """
        if changed := self.changed_data(now):
            raise ValueError(
                f"{root}, or a folder of data.mixture, holds other data than the run {self.root} saw: "
                f"{'. '.join(changed)}. Put the run's prepared folder there. `medtune run`, `train` and `eval` go on "
                "with the changed data by --resume --accept-changed-data; every output then says so"
            )

    def accept_changed_data(
        self, now: DataFacts, about: Mapping[str, str], asked: Sequence[MediaGroup], contents: Mapping[str, str]
    ) -> None:
        """Records that the run goes on with other data, and puts aside the answers to questions that have changed.

        Args:
            about: Facts about the recipe and its data, which replace those recorded.
            asked: The media groups that are evaluated now, some of which the run may have been trained on.
            contents: The digest of what each of their media files shows.
        """
        changed = self.changed_data(now)
        if not changed:
            return
        recorded, step = self.recorded(), self.saved_step()
        said = [str(recorded["changed_data"])] if recorded.get("changed_data") else []
        said.append(f"after step {step}: {'. '.join(changed)}")
        if any(each.startswith("data.root") for each in changed):
            for answers in (self.zero_shot, self.final, self.audit_answers, self.audit):
                if answers.exists():
                    answers.rename(answers.with_name(f"{answers.name}.before_change_{len(said)}"))
        # What the run has learnt includes what its first weights had learnt.
        seen = asked_again(self.read_learnt(), asked, contents)
        again = {"seen_in_training": seen} if seen else {}
        write_json(self.environment, {**recorded, **about, **again, DATA: now, "changed_data": "; ".join(said)})


def step_of(state: Path) -> int | None:
    """Returns the optimizer step after which a state was saved, from the name of its folder."""
    number = state.name.removeprefix(STATE_PREFIX).removesuffix(_BEFORE_VALIDATION)
    return int(number) if number.isdecimal() else None


def _written_ns(checkpoint: Path) -> int:
    return (checkpoint / ABOUT if checkpoint.is_dir() else checkpoint).stat().st_mtime_ns
