"""The folder of a run: the paths of its files, its recipe, and the facts recorded about its data when it began."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medtune.data.types import MediaGroup
from medtune.eval.data_label import DataLabel, recorded_label
from medtune.eval.predictions.files import replace_file
from medtune.models.weights.divided.whole_folders import ABOUT, BEFORE, is_checkpoint
from medtune.trainer.experiment.environment import environment
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.seen.changed_settings import differences
from medtune.trainer.seen.data_facts import DATA, changes
from medtune.trainer.seen.learnt import NOTHING, Learnt, asked_again, read_learnt


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file under a temporary name and renames it, so that no partial file is ever left."""
    replace_file(path, [json.dumps(content, indent=1).encode() + b"\n"])


DataFacts = Mapping[str, Mapping[str, Any]]
"""Facts about prepared folders, as `data_facts` returns them."""
NO_CONTENTS: Mapping[str, str] = {}
STATE_PREFIX = "state_step_"
_BEFORE_VALIDATION = "_before_validation"
STATE_FILE = "state.json"
"""The file of a saved state with everything but its tensors."""


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
        """The trained weights that were best on the validation questions, a file or a folder."""
        return self.trained("best")

    @property
    def has_best(self) -> bool:
        """Whether the best trained weights are there, whole."""
        return is_checkpoint(self.best)

    def trained(self, name: str) -> Path:
        """Returns the checkpoint of a name: a file, or a folder that all ranks wrote; the file if there is none yet.

        There are two where the run was resumed with another strategy and killed before it removed the older one.
        """
        places = (self.trained_file(name), self.trained_folder(name), self.trained_folder(name + BEFORE))
        there = [path for path in places if is_checkpoint(path)]
        return max(there, key=_written_ns, default=places[0])

    def trained_file(self, name: str) -> Path:
        """Returns where a checkpoint lies that is one file."""
        return self.checkpoints / f"{name}.safetensors"

    def trained_folder(self, name: str) -> Path:
        """Returns where a checkpoint lies that all ranks wrote together, each its part."""
        return self.checkpoints / name

    @property
    def adapter(self) -> Path:
        """The folder of the best trained weights in PEFT's format, or with the reason why that format has none."""
        return self.checkpoints / "adapter"

    @property
    def last(self) -> Path:
        """The trained weights after the last step, a file or a folder."""
        return self.trained("last")

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
        """Returns the last weights of a stage, from which the next stage begins, a file or a folder."""
        return self.trained(f"stage_{number}")

    def states(self) -> list[Path]:
        """Returns the saved states, by their steps."""
        found = [path for path in self.checkpoints.glob(f"{STATE_PREFIX}*") if _step(path) is not None]
        return sorted(found, key=lambda path: (_step(path) or 0, not path.name.endswith(_BEFORE_VALIDATION)))

    def state(self, step: int, *, validation_due: bool) -> Path:
        """Returns the path of the state after a step, whose validation was stopped or is done."""
        return self.checkpoints / f"{STATE_PREFIX}{step:06d}{_BEFORE_VALIDATION if validation_due else ''}"

    def saved_state(self) -> Path | None:
        """Returns the folder of the newest state to resume from; None if there is none."""
        return next(reversed(self.states()), None)

    def saved_step(self) -> int:
        """Returns the optimizer step of the saved state; 0 if there is none."""
        state = self.saved_state()
        return 0 if state is None else _step(state) or 0

    def validation_due(self) -> bool:
        """Returns whether the run was stopped in the validation after the saved step, which is then done anew."""
        state = self.saved_state()
        return state is not None and state.name.endswith(_BEFORE_VALIDATION)

    def refuse_old_state(self) -> None:
        """Refuses a state that an earlier version of medtune has saved."""
        state = self.saved_state()
        if state is not None and not (state / STATE_FILE).is_file():
            raise ValueError(
                f"{state} was saved by an earlier version of medtune, in a format that this one does not read (it may "
                "hold code). Resume the run with that version, or start a new folder; the trained weights beside it "
                "can be used: --set model.checkpoint=.../best.safetensors"
            )

    def read_recipe(self) -> Recipe:
        if not self.recipe.is_file():
            raise FileNotFoundError(f"{self.root}: no run is here (no recipe.yaml); give the folder that a run wrote")
        return read_recipe(str(self.recipe))

    def recorded(self) -> Mapping[str, object]:
        """Returns the content of environment.json: machine, versions, and facts about the recipe and its data."""
        found: Mapping[str, object] = json.loads(self.environment.read_text("utf-8"))
        return found

    def recorded_label(self) -> DataLabel:
        """Returns the label of the data that the run recorded when it began."""
        return recorded_label(self.recorded())

    @property
    def learnt(self) -> Path:
        """learnt.json, which says what the run was trained on, also before its data changed."""
        return self.checkpoints / "learnt.json"

    def read_learnt(self) -> Learnt:
        """Returns what the run was trained on so far; nothing if it has not begun to train."""
        facts = json.loads(self.learnt.read_text("utf-8")) if self.learnt.is_file() else {}
        return read_learnt(facts) or NOTHING

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
        found: dict[str, Mapping[str, Any]] = dict(recorded.get(DATA, {}))  # type: ignore[call-overload]
        return {**found, "data.root": {**found.get("data.root", {}), "hash": recorded["data_hash"]}}

    def refuse_other_data(self, root: Path, now: DataFacts) -> None:
        """Refuses prepared folders with other data than the run has seen.

        Args:
            root: The evaluated prepared folder, for the message.
            now: The facts about the data that are there now.
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
            now: The facts about the data that are there now.
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


def begin_or_resume(
    folder: RunFolder,
    recipe: Recipe,
    *,
    resume: bool,
    command: Sequence[str],
    about: Mapping[str, str],
    data: DataFacts,
    accept_changed_data: bool = False,
    asked: Sequence[MediaGroup] = (),
    contents: Mapping[str, str] = NO_CONTENTS,
) -> None:
    """Makes the folder of a new run, or checks and continues that of an interrupted one.

    Args:
        folder: The run folder.
        recipe: The resolved recipe, which is written into the folder.
        resume: Whether the folder holds a run to continue.
        command: The command line, for the record.
        about: Facts about the recipe and its data, for the record.
        data: Facts about the prepared folders, which are compared when the run goes on.
        accept_changed_data: Whether the run goes on with other data than it began with.
        asked: The media groups that are evaluated, which are compared with what the run has learnt if its data changed.
        contents: The digest of what each of their media files shows.
    """
    root = folder.root
    if resume:
        if not folder.recipe.is_file():
            raise FileNotFoundError(f"{root}: no run to resume here (no recipe.yaml); start it without --resume")
        if changed := differences(folder.read_recipe(), recipe):
            raise ValueError(
                f"{folder.recipe}: the interrupted run has other settings than this command: {'; '.join(changed)}. "
                "Resume it with the same recipe and --set, or start a new folder"
            )
        folder.refuse_old_state()
        if accept_changed_data:
            folder.accept_changed_data(data, about, asked, contents)
        folder.refuse_other_data(recipe.data.root, data)
        replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])
        return
    # The launcher has its own folder inside the run folder before the run begins.
    if root.exists() and (not root.is_dir() or any(each.name != "launch" for each in root.iterdir())):
        raise FileExistsError(
            f"{root} is not empty; name another folder with --out, or continue that run with --resume"
        )
    root.mkdir(parents=True, exist_ok=True)
    write_json(folder.environment, {**environment(command), **about, DATA: data})
    # The recipe is written last. A folder with a recipe therefore holds a run that can be opened and resumed.
    replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])


def _step(state: Path) -> int | None:
    number = state.name.removeprefix(STATE_PREFIX).removesuffix(_BEFORE_VALIDATION)
    return int(number) if number.isdecimal() else None


def _written_ns(checkpoint: Path) -> int:
    return (checkpoint / ABOUT if checkpoint.is_dir() else checkpoint).stat().st_mtime_ns
