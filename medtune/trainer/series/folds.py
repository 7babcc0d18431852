"""Pools the runs of a cross-validation: each is asked one fold of the patients and learns from the others."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from medtune.data.files import replace_file
from medtune.eval.judge.verdicts import verdicts_path
from medtune.eval.predictions.files import MERGED, format_line
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.runs.run_folder import RunFolder, write_json
from medtune.trainer.series.runs import PlannedRun, Series


def folds(out: Path, *, number: int, command: Sequence[str]) -> Series:
    """Returns the runs OUT/fold-1, OUT/fold-2, ..., whose answers are pooled in OUT.

    Args:
        command: The arguments of the whole cross-validation, for the record.
    """
    runs = [
        PlannedRun(f"fold {fold} of {number}", fold_folder(out, fold), (f"data.fold={fold}",))
        for fold in range(1, number + 1)
    ]

    def pool() -> str:
        return f"{pool_folds(out, number=number, command=['medtune', *command])}\nresults: {out / 'results.json'}"

    return Series("--folds", tuple(runs), pool)


def fold_folder(out: Path, fold: int) -> Path:
    return out / f"fold-{fold}"


def pool_folds(out: Path, *, number: int, command: Sequence[str]) -> str:
    """Writes the run folder OUT with the answers of all folds, their scores and the report; returns the scores."""
    # These imports load torch.
    from medtune.trainer.commands.judge import rescore_run
    from medtune.trainer.experiment.experiment import open_run

    runs, whole = [RunFolder(fold_folder(out, fold)) for fold in range(1, number + 1)], RunFolder(out)
    for name in ("zero_shot", "final"):
        phases = [run.root / name for run in runs]
        (out / name).mkdir(exist_ok=True)
        answers = (each for phase in phases for each in stored_predictions(phase).values())
        replace_file(out / name / MERGED, map(format_line, answers))
        verdicts = [path for phase in phases if (path := verdicts_path(phase / MERGED)).is_file()]
        if verdicts:
            replace_file(verdicts_path(out / name / MERGED), (path.read_bytes() for path in verdicts))
    recipe = runs[0].read_recipe()
    replace_file(whole.recipe, [recipe_to_yaml(replace(recipe, data=replace(recipe.data, fold=None))).encode()])
    labels = [asdict(run.recorded_label()) for run in runs]
    label = {name: "; ".join(dict.fromkeys(each[name] for each in labels if each[name])) for name in labels[0]}
    found = [read_json(run.results, ResultsFile) for run in runs]
    about: dict[str, Any] = {
        **label,
        "trained_on": f"in {number} runs what is not in their fold; the first: {found[0].trained_on}",
    }
    write_json(whole.environment, {**runs[0].recorded(), **about, "command": list(command)})
    write_json(whole.weights, read_json(runs[0].weights, dict[str, str]))
    stops = [f"fold {place}: {each.stopped_early}" for place, each in enumerate(found, 1) if each.stopped_early]
    measured = [phase for phase in found[0].seconds if all(phase in each.seconds for each in found)]
    about["seconds"] = {phase: round(sum(each.seconds[phase] for each in found), 1) for phase in measured}
    # `rescore_run` takes the facts of a run from its results, and puts the scores of all answers in place of these.
    write_document(whole.results, replace(found[0], **about, stopped_early="; ".join(stops)))
    return rescore_run(open_run(out))
