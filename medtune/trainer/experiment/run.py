"""One recipe, one command: zero-shot evaluation, training, the same evaluation again, the gain."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.types import Condition, MediaGroup, Reading
from medtune.eval.asking.official_prompts import worded
from medtune.eval.comparing.gain import gain_between
from medtune.eval.data_label import unofficial_sets
from medtune.eval.report.write import write_report
from medtune.eval.results.build import RunFacts, results_file
from medtune.eval.results.gain_table import gain_table
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.score import PhaseScores
from medtune.models.endpoint.served import NO_LIKELIHOOD, Served
from medtune.models.tuning.precision import resolved
from medtune.models.vlm import Assembled
from medtune.trainer.commands.validate import check_fit
from medtune.trainer.experiment.audit import audit_without_asking
from medtune.trainer.experiment.evaluate import Experiment, evaluate_phase, groups_of, write_json
from medtune.trainer.experiment.load_model import assemble, assemble_stage, assemble_trained, served
from medtune.trainer.experiment.open_data import opened
from medtune.trainer.experiment.processes import INTERRUPTED
from medtune.trainer.experiment.run_folder import RunFolder, open_run
from medtune.trainer.experiment.strategies import barrier, device_of_rank, join_ranks, prefer_one_order
from medtune.trainer.experiment.unofficial import unofficial_before
from medtune.trainer.recipe.published_protocol import as_published, protocol_facts
from medtune.trainer.recipe.schema import SERVED, Recipe
from medtune.trainer.training.callbacks import BEST, LAST, saved_step
from medtune.trainer.training.dashboard.config import logged_config
from medtune.trainer.training.dashboard.logger import dashboard_of
from medtune.trainer.training.fit import fit
from medtune.trainer.training.loggers import build_loggers
from medtune.trainer.training.mixture import Folder, described, open_folders, train_data
from medtune.trainer.training.phase_metrics import phase_metrics
from medtune.trainer.training.stages import Part, parts, with_counted_epochs
from medtune.trainer.training.trainable_parts import part_table


@dataclass(frozen=True)
class Job:
    """What the command line asks for."""

    recipe: Recipe
    recipe_name: str
    out: Path
    resume: bool
    limit: int | None
    command: Sequence[str]


@dataclass(frozen=True)
class Session:
    """What all commands share once everything is open."""

    job: Job
    experiment: Experiment
    folder: RunFolder
    about: dict[str, str]
    folders: Sequence[Folder] = ()


def run(job: Job) -> int:
    """Evaluates, trains, evaluates again and writes results.json; returns the exit status."""
    session = _open(job, training=True)
    loggers = _loggers(session)
    zero_shot = _zero_shot(session, loggers, _untrained(session), conditions=("image",))
    if not _train(session, loggers):
        return _interrupted(session)
    # Built anew from the checkpoint on disk, so that what is reported is what was saved.
    trained = assemble_trained(session.experiment, session.folder.checkpoints / BEST)
    final = _final(session, loggers, trained, step=session.job.recipe.total_steps)
    _finish(session, loggers, {"zero_shot": zero_shot, "final": final}, trained)
    return 0


def train(job: Job) -> int:
    """Trains only; returns the exit status."""
    session = _open(job, training=True)
    loggers = _loggers(session)
    if not _train(session, loggers):
        return _interrupted(session)
    _close(loggers)
    _say(session, f"weights: {session.folder.checkpoints / BEST} (best on validation), {LAST} (last step)")
    _say(session, "\n".join(session.experiment.label.notes()))
    return 0


def evaluate(job: Job) -> int:
    """Evaluates only: the recipe's model as it is, or with `model.checkpoint`; returns the exit status."""
    session = _open(job, training=False)
    loggers = _loggers(session)
    model = _untrained(session)
    if job.recipe.model.checkpoint is None:
        phases = {"zero_shot": _zero_shot(session, loggers, model, conditions=job.recipe.eval.conditions)}
    else:
        phases = {"final": _final(session, loggers, model, step=0)}
    _finish(session, loggers, phases, model)
    return 0


def _open(job: Job, *, training: bool) -> Session:
    if training and job.recipe.model.endpoint is not None:
        raise ValueError(
            f"model.name {SERVED!r}: a model behind an endpoint cannot be trained, its weights are not here; "
            f"`medtune eval {job.recipe_name}` evaluates it"
        )
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = device_of_rank(int(os.environ.get("LOCAL_RANK", "0")))
    prefer_one_order(device)
    join_ranks(world_size, device)
    recipe = job.recipe
    train = dataclasses.replace(recipe.train, precision=resolved(recipe.train.precision, device))
    recipe = dataclasses.replace(recipe, train=train)
    pl.seed_everything(train.seed, workers=True, verbose=False)
    prepared = opened(recipe.data.root, recipe.model)
    benchmark = worded(find_benchmark(recipe.data.benchmark), prepared, volumes_as=recipe.model.shows_volumes_as)
    recipe = as_published(recipe, benchmark)
    check_fit(recipe, prepared, benchmark, training=training)
    folders = open_folders(recipe, prepared, benchmark) if training else ()
    if training:
        recipe = with_counted_epochs(recipe, [folder.prepared for folder in folders], limit=job.limit)
    job = dataclasses.replace(job, recipe=recipe)
    learnt = unofficial_sets(
        [folder.prepared.manifest for folder in folders], before=unofficial_before(job.recipe.model)
    )
    experiment = Experiment(job.recipe, benchmark, prepared, device, rank, world_size, learnt)
    about = {"recipe": job.recipe_name, "data_hash": prepared.data_hash, **experiment.label.facts()}
    if training:
        about["trained_on"] = described(
            job.recipe, train_data(job.recipe, job.recipe.stages[0], folders, limit=job.limit)
        )
    folder = RunFolder(job.out)
    if rank == 0:
        open_run(job.out, job.recipe, resume=job.resume, command=job.command, about=about)
    barrier()
    session = Session(job, experiment, folder, about, folders)
    _say(session, f"run folder: {job.out}")
    return session


def _untrained(session: Session) -> Assembled | Served:
    """Returns what the run starts from."""
    start, endpoint = session.job.recipe.model.checkpoint, session.job.recipe.model.endpoint
    if endpoint is not None:
        return served(session.experiment, endpoint, ledger=session.folder.spending)
    return assemble(session.experiment) if start is None else assemble_trained(session.experiment, start)


def _zero_shot(
    session: Session, loggers: list[Logger], model: Assembled | Served, *, conditions: Sequence[Condition]
) -> PhaseScores:
    if session.experiment.rank == 0:
        write_json(session.job.out / "weights.json", model.provenance)
    return _phase(session, loggers, model, "zero_shot", session.folder.zero_shot, conditions, step=0)


def _train(session: Session, loggers: list[Logger]) -> bool:
    """Trains the stages that are not done yet; returns False if someone asked to stop before the end."""
    start = session.job.recipe.model.checkpoint
    for part in parts(session.job.recipe):
        checkpoints = session.folder.checkpoints
        # A stage's last weights are written before its last state.
        if saved_step(checkpoints) < part.last_step and not _train_stage(session, loggers, part, start):
            return False
        start = checkpoints / part.handed_on
    return True


def _train_stage(session: Session, loggers: list[Logger], part: Part, start: Path | None) -> bool:
    """Trains a stage on a model that is built anew from `start`, so that a resumed run goes the same way."""
    tuned = assemble_stage(session.experiment, part.stage, start)
    if len(session.job.recipe.stages) > 1:
        _say(session, f"stage {part.number}, {part.stage.name}: steps {part.first_step + 1} to {part.last_step}")
    _say(session, part_table(tuned.rows))
    for logger in loggers:
        logger.log_hyperparams({"trainable_parts": {row.group: dataclasses.asdict(row) for row in tuned.rows}})
    if dashboard := dashboard_of(loggers):
        dashboard.show_parts(tuned.rows, stage=part.number)
    return fit(
        session.experiment,
        session.folders,
        part,
        tuned,
        session.folder,
        loggers=loggers,
        limit=session.job.limit,
        about=session.about,
    )


def _final(session: Session, loggers: list[Logger], model: Assembled | Served, *, step: int) -> PhaseScores:
    conditions = session.job.recipe.eval.conditions
    return _phase(session, loggers, model, "final", session.folder.final, conditions, step=step)


def _phase(
    session: Session,
    loggers: list[Logger],
    model: Assembled | Served,
    name: str,
    out_dir: Path,
    conditions: Sequence[Condition],
    *,
    step: int,
) -> PhaseScores:
    recipe = session.job.recipe
    groups = _tested(session)
    scores = evaluate_phase(
        session.experiment,
        model,
        groups,
        out_dir=out_dir,
        conditions=conditions,
        title=name.replace("_", "-"),
        repeats=recipe.eval.draws(conditions),
    )
    for logger in loggers:
        logger.log_metrics(phase_metrics(name, scores, session.experiment.benchmark), step=step)
        logger.save()
    if dashboard := dashboard_of(loggers):
        media = {group.media_id: group.media for group in groups}
        dashboard.show_phase(name, scores, media, out_dir=out_dir, step=step)
    return scores


def _tested(session: Session) -> tuple[MediaGroup, ...]:
    """Returns the groups that zero-shot and final are measured on."""
    recipe = session.job.recipe
    wanted = [number for number in (session.job.limit, recipe.eval.questions) if number is not None]
    return groups_of(
        session.experiment.prepared, recipe.eval.split, questions=min(wanted, default=None), seed=recipe.train.seed
    )


def _finish(
    session: Session, loggers: list[Logger], phases: Mapping[str, PhaseScores], model: Assembled | Served
) -> None:
    benchmark = session.experiment.benchmark
    both = "zero_shot" in phases and "final" in phases
    gain = gain_between(phases["zero_shot"], phases["final"], benchmark) if both else None
    recipe = session.job.recipe
    if session.experiment.rank == 0:
        facts = RunFacts(
            recipe=session.job.recipe_name,
            data_hash=session.experiment.prepared.data_hash,
            label=session.experiment.label,
            protocol=protocol_facts(recipe, benchmark),
            trained_on=session.about.get("trained_on", ""),
        )
        results = results_file(
            phases,
            gain,
            benchmark,
            benchmark_name=recipe.data.benchmark,
            model=recipe.model.shown_name,
            facts=facts,
            unavailable=_unavailable(recipe),
        )
        write_document(session.folder.results, results)
    asked = sum(len(group.questions) for group in _tested(session))
    there = len(session.experiment.prepared.questions(recipe.eval.split))
    if asked < there:
        _say(session, f"\nasked {asked} of the {there} questions of {recipe.eval.split!r}, drawn by train.seed")
    told = gain_table(phases, gain, benchmark, label=session.experiment.label, unavailable=_unavailable(recipe))
    _say(session, "\n" + told)
    _say(session, f"results: {session.folder.results}")
    if dashboard := dashboard_of(loggers):
        last_step = recipe.total_steps if both else 0
        dashboard.show_results(phases, gain, session.folder, last_step=last_step, split=recipe.eval.split)
    if session.experiment.rank == 0:
        _say(session, audit_without_asking(session.experiment, session.folder, model))
    _close(loggers)
    if session.experiment.rank == 0:
        _say(session, f"report: {write_report(session.job.out, paper_of)}")


def _unavailable(recipe: Recipe) -> dict[Reading, str]:
    return {"likelihood": NO_LIKELIHOOD} if recipe.model.endpoint else {}


def _interrupted(session: Session) -> int:
    step = saved_step(session.folder.checkpoints)
    _say(session, f"stopped at step {step}; continue with --resume --out {session.job.out}")
    return INTERRUPTED


def _loggers(session: Session) -> list[Logger]:
    recipe, prepared = session.job.recipe, session.experiment.prepared
    return build_loggers(
        session.job.out,
        recipe.log,
        session.experiment.benchmark,
        provenance=prepared.manifest.provenance,
        recipe_name=session.job.recipe_name,
        config=logged_config(recipe, prepared.manifest, session.experiment.label),
        tags=[recipe.model.shown_name, recipe.data.benchmark, prepared.manifest.provenance],
        resume_step=saved_step(session.folder.checkpoints),
    )


def _close(loggers: list[Logger]) -> None:
    for logger in loggers:
        logger.finalize("success")
    if dashboard := dashboard_of(loggers):
        dashboard.end()


def _say(session: Session, text: str) -> None:
    if session.experiment.rank == 0:
        print(text, flush=True)
