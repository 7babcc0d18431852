"""`medtune audit`: of a run, whose model is loaded and asked again, or of a benchmark, which needs none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.folder import open_prepared
from medtune.data.types import SPLITS, MediaGroup, Split
from medtune.eval.asking.official_prompts import worded
from medtune.eval.audit.findings import findings_of, findings_text
from medtune.eval.audit.findings_file import findings_file
from medtune.eval.data_label import label_of
from medtune.eval.report.write import write_report
from medtune.eval.results.typed_json import write_document
from medtune.models.endpoint.served import Served
from medtune.models.vlm import Assembled
from medtune.trainer.commands.validate import check_fit
from medtune.trainer.experiment.audit import answered_phase, audit_with_model
from medtune.trainer.experiment.evaluate import Experiment
from medtune.trainer.experiment.load_model import assemble, assemble_trained, served
from medtune.trainer.experiment.open_data import opened
from medtune.trainer.experiment.run_folder import RunFolder, run_label
from medtune.trainer.experiment.strategies import device_of_rank
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.training.callbacks import BEST


def audit_run(root: Path) -> int:
    """Writes ROOT/audit.json with all rows and the report anew, prints the table and returns 0; on one device.

    A run that has not ended has no results to report: its report is written when it ends.

    Raises:
        FileNotFoundError: No run, prepared folder or checkpoint is there.
        ValueError: The prepared folder is not the run's, or nothing can be audited.
    """
    folder = RunFolder(root)
    if not folder.recipe.is_file():
        raise FileNotFoundError(
            f"{root}: no run is here (no recipe.yaml); to audit a benchmark, give its name and --questions DIR"
        )
    experiment = opened_experiment(folder)
    phase = answered_phase(experiment, folder)
    print(audit_with_model(experiment, folder, phase, _model(experiment, folder, phase.name)))
    print(f"audit: {folder.audit}")
    if folder.results.is_file():
        print(f"report: {write_report(folder.root, paper_of)}")
    else:
        print(f"no report yet: the run has not ended (no {folder.results.name})")
    return 0


def opened_experiment(folder: RunFolder) -> Experiment:
    """Returns the bench of a run's recipe for this process alone."""
    recipe = read_recipe(str(folder.recipe))
    prepared = opened(recipe.data.root, recipe.model)
    benchmark = worded(find_benchmark(recipe.data.benchmark), prepared, volumes_as=recipe.model.shows_volumes_as)
    check_fit(recipe, prepared, benchmark, training=False)
    learnt = run_label(folder).unofficial_training
    return Experiment(recipe, benchmark, prepared, device_of_rank(0), rank=0, world_size=1, unofficial_training=learnt)


def _model(experiment: Experiment, folder: RunFolder, phase: str) -> Assembled | Served:
    if experiment.recipe.model.endpoint is not None:
        return served(experiment, experiment.recipe.model.endpoint, ledger=folder.spending)
    best = folder.checkpoints / BEST
    checkpoint = best if phase == "final" and best.is_file() else experiment.recipe.model.checkpoint
    return assemble(experiment) if checkpoint is None else assemble_trained(experiment, checkpoint)


def audit_benchmark(name: str, *, questions: Path, split: Split, out: Path | None) -> int:
    """Prints what in a prepared benchmark could be had without looking, writes it to `out`, and returns 0.

    Raises:
        FileNotFoundError: The prepared folder is missing.
        ValueError: It was prepared for another benchmark, or the split is empty.
    """
    prepared = open_prepared(questions)
    find_benchmark(name)
    if prepared.manifest.benchmark != name:
        raise ValueError(f"{questions} was prepared for the benchmark {prepared.manifest.benchmark!r}, not {name!r}")
    groups: dict[str, Sequence[MediaGroup]] = {each: prepared.groups(each) for each in SPLITS}
    findings = findings_of(groups, split=split, near_duplicates=prepared.manifest.near_duplicates)
    print(findings_text(findings, title=f"Audit of {name}, {questions}, split {split}"))
    label = label_of(prepared.manifest, prompts=prepared.manifest.prompts)
    print("\n".join(label.notes()))
    if out is not None:
        file = findings_file(findings, label, benchmark=name, split=split, data_hash=prepared.data_hash)
        write_document(out, file)
        print(f"items: {out}")
    return 0
