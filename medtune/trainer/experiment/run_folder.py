"""The folder of a run: the paths of its files, its recipe, and the facts recorded about its data when it began."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.eval.data_label import DataLabel, recorded_label
from medtune.eval.predictions.files import replace_file
from medtune.trainer.experiment.environment import environment
from medtune.trainer.experiment.write_json import write_json
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe, asks_the_same

STATE_PREFIX = "state_step_"


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run, and the files of it that can be read without opening its data.

    Attributes:
        root: The folder itself.
    """

    root: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.root / "recipe.yaml"

    @property
    def environment(self) -> Path:
        """environment.json: the machine, the command, and the facts about the recipe and its data."""
        return self.root / "environment.json"

    @property
    def weights(self) -> Path:
        """weights.json, which says where the weights come from that the run starts with."""
        return self.root / "weights.json"

    @property
    def commits(self) -> dict[str, str]:
        """The commit of each repository of the hub that the run read weights from, from environment.json."""
        if not self.environment.is_file():
            return {}
        noted: dict[str, str] = json.loads(self.environment.read_text("utf-8")).get("commits", {})
        return noted

    def note_commits(self, commits: Mapping[str, str]) -> None:
        """Writes commits into environment.json, so that the run reads the same weights when it goes on."""
        if commits and self.environment.is_file():
            said = json.loads(self.environment.read_text("utf-8"))
            write_json(self.environment, {**said, "commits": {**commits, **self.commits}})

    @property
    def doctor(self) -> Path:
        """doctor.json, which says how the checkpoint was proven on the machine of the run."""
        return self.root / "doctor.json"

    @property
    def zero_shot(self) -> Path:
        """The folder of the answers and scores before training."""
        return self.root / "zero_shot"

    @property
    def final(self) -> Path:
        """The folder of the answers and scores after training."""
        return self.root / "final"

    @property
    def checkpoints(self) -> Path:
        """The folder of the trained weights and of the state to resume from."""
        return self.root / "checkpoints"

    @property
    def best(self) -> Path:
        """The file of the trained weights that were best on the validation questions."""
        return self.checkpoints / "best.safetensors"

    @property
    def adapter(self) -> Path:
        """The folder of the best trained weights in PEFT's format, or with the reason why that format has none."""
        return self.checkpoints / "adapter"

    @property
    def last(self) -> Path:
        """The file of the trained weights after the last step."""
        return self.checkpoints / "last.safetensors"

    @property
    def early_stops(self) -> dict[int, str]:
        """For each stage that ended before its last step, by its number: at which step, and why."""
        path = self.checkpoints / "early_stops.json"
        noted = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        return {int(number): str(why) for number, why in noted.items()}

    def note_early_stop(self, stage: int, why: str) -> None:
        """Notes that a stage has ended before its last step."""
        write_json(self.checkpoints / "early_stops.json", {**self.early_stops, stage: why})

    @property
    def start(self) -> Path:
        """The file of the weights that the training begins with, where adapters begin with PiSSA or EVA."""
        return self.checkpoints / "start.safetensors"

    @property
    def results(self) -> Path:
        """results.json, the scores of all phases and the gain."""
        return self.root / "results.json"

    @property
    def audit(self) -> Path:
        """audit.json, which says how far the answers could have been guessed."""
        return self.root / "audit.json"

    @property
    def spending(self) -> Path:
        """spending.jsonl, the charges of an endpoint for the run's answers."""
        return self.root / "spending.jsonl"

    @property
    def audit_answers(self) -> Path:
        """The folder of the answers that the model gave only for the audit."""
        return self.root / "audit"

    def validation(self, step: int) -> Path:
        """Returns the folder of answers and scores on the validation questions after a step."""
        return self.root / "validation" / f"step_{step:06d}"

    def stage_weights(self, number: int) -> Path:
        """Returns the file with the last weights of a stage, from which the next stage begins."""
        return self.checkpoints / f"stage_{number}.safetensors"

    def saved_state(self) -> Path | None:
        """Returns the newest state to resume from, a file or a folder written by DeepSpeed; None if there is none."""
        return max(self.checkpoints.glob(f"{STATE_PREFIX}*"), default=None)

    def saved_step(self) -> int:
        """Returns the optimizer step of the saved state; 0 if there is none."""
        state = self.saved_state()
        return 0 if state is None else int(state.name.removeprefix(STATE_PREFIX))

    def read_recipe(self) -> Recipe:
        """Returns the recipe of the run.

        Raises:
            FileNotFoundError: The folder holds no run.
            ValueError: The run's recipe cannot be read.
        """
        if not self.recipe.is_file():
            raise FileNotFoundError(f"{self.root}: no run is here (no recipe.yaml); give the folder that a run wrote")
        return read_recipe(str(self.recipe))

    def recorded(self) -> Mapping[str, object]:
        """Returns the content of environment.json: the machine, the versions, and facts about the recipe and its data.

        Raises:
            FileNotFoundError: The folder holds no run, or not all of it.
        """
        found: Mapping[str, object] = json.loads(self.environment.read_text("utf-8"))
        return found

    def recorded_label(self) -> DataLabel:
        """Returns the label of the data that the run recorded when it began.

        Raises:
            FileNotFoundError: The folder holds no run, or not all of it.
        """
        return recorded_label(self.recorded())

    def refuse_other_data(self, root: Path, data_hash: str) -> None:
        """Refuses a prepared folder with other data than the run was started with.

        Args:
            root: The prepared folder, for the message.
            data_hash: The hash of its data.

        Raises:
            FileNotFoundError: The folder holds no run, or not all of it.
            ValueError: The data differ; the message names both hashes.
        """
        saw = str(self.recorded()["data_hash"])
        if data_hash != saw:
            raise ValueError(
                f"{root} holds other data (hash {data_hash[:16]}) than the run {self.root} saw ({saw[:16]}); "
                "put the run's prepared folder there"
            )


def begin_or_resume(
    folder: RunFolder, recipe: Recipe, *, resume: bool, command: Sequence[str], about: Mapping[str, str]
) -> None:
    """Makes the folder of a new run, or checks and continues that of an interrupted one.

    Args:
        folder: The run folder.
        recipe: The resolved recipe, which is written into the folder.
        resume: Whether the folder holds a run to continue.
        command: The command line, for the record.
        about: Facts about the recipe and its data, for the record.

    Raises:
        FileExistsError: The folder holds something and `resume` is off.
        FileNotFoundError: `resume` is on and the folder holds no run.
        ValueError: The interrupted run had another recipe or other data.
    """
    root = folder.root
    if resume:
        if not folder.recipe.is_file():
            raise FileNotFoundError(f"{root}: no run to resume here (no recipe.yaml); start it without --resume")
        if asks_the_same(folder.read_recipe()) != asks_the_same(recipe):
            raise ValueError(
                f"{folder.recipe}: the interrupted run has other settings than this command; "
                "resume it with the same recipe and --set, or start a new folder"
            )
        folder.refuse_other_data(recipe.data.root, about["data_hash"])
        replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])
        return
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise FileExistsError(
            f"{root} is not empty; name another folder with --out, or continue that run with --resume"
        )
    root.mkdir(parents=True, exist_ok=True)
    write_json(folder.environment, {**environment(command), **about})
    # The recipe is written last. A folder with a recipe therefore holds a run that can be opened and resumed.
    replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])
