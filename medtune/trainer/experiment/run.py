"""Carries out a run: zero-shot evaluation, training, the same evaluation again, and the gain between the two.

Before this, `open_experiment` in `experiment.py` opens the recipe, its data and the run folder.
"""

import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from lightning.pytorch.loggers import Logger

from medtune.benchmarks import paper_of
from medtune.data.progress import clock
from medtune.data.types import Condition, Reading
from medtune.eval.results.build import phase_text
from medtune.eval.scoring.bertscore import load_text_model, named_model
from medtune.eval.scoring.score import PhaseScores
from medtune.models.endpoint.settings import NO_LIKELIHOOD
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.devices.strategies import check_freed
from medtune.trainer.experiment.evaluate import (
    AskedModel,
    LoadedModel,
    answer_groups,
    score_answers,
    tested_groups,
    write_results,
)
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.first_weights import first_weights
from medtune.trainer.experiment.judging import judge_command_line, judge_phase
from medtune.trainer.experiment.load_model import load_model, load_trainable
from medtune.trainer.launch.marks import mark_stopped
from medtune.trainer.launch.stop import INTERRUPTED, asked_to_stop
from medtune.trainer.recipe.check import protocol_facts
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import write_json
from medtune.trainer.training.fit import fit
from medtune.trainer.training.loggers import (
    TOOK,
    WAITED,
    close_loggers,
    dashboard_of,
    log_parts,
    log_phase,
    opened_loggers,
)
from medtune.trainer.training.stages import PlannedStage, planned_stages


def plan_text(experiment: Experiment, *, hardware: str) -> str:
    """Returns what a run will do, with what and about how long, as lines of text.

    Args:
        hardware: What the head of the recipe's file says about machine and time; "" if it says nothing.
    """
    recipe, prepared = experiment.recipe, experiment.prepared
    asked = sum(len(group.questions) for group in tested_groups(experiment))
    there, steps, split = prepared.num_questions(recipe.eval.split), recipe.total_steps, repr(recipe.eval.split)
    if recipe.data.fold is not None:
        split = f"fold {recipe.data.fold} of {recipe.data.folds}, by patient"
    shown = protocol_facts(recipe, experiment.benchmark).used.shown or ", ".join(recipe.eval.conditions)
    lines = [
        f"{experiment.name}: zero-shot evaluation, {steps:,} steps of training, the same evaluation again, the gain",
        f"  model      {recipe.model.shown_name} on {experiment.device.type}, {recipe.train.precision}",
        f"  learns     {experiment.trained_on}",
        f"  is asked   {asked:,} of the {there:,} questions of {split}; at the end under {shown}",
        f"  needs      {hardware}" if hardware else "  time       shown with every phase",
    ]
    return "\n".join(lines)


def run(experiment: Experiment) -> int:
    """Evaluates, trains, evaluates again and writes results.json; returns the exit status."""
    _load_what_scores(experiment)
    with opened_loggers(experiment) as loggers:
        start = experiment.recipe.model.checkpoint
        experiment.left.final_conditions = len(experiment.recipe.eval.asked_at("final"))
        zero_shot = _zero_shot_alone(experiment, loggers, start)
        if not _train_stages(experiment, loggers):
            return _interrupted(experiment, loggers)
        # The model is built anew from the checkpoint on disk, so that the report is about the saved weights.
        trained = load_model(experiment, experiment.folder.best)
        conditions, last_step = experiment.recipe.eval.asked_at("final"), experiment.recipe.total_steps
        final = _final(experiment, loggers, trained, conditions=conditions, step=last_step, before=zero_shot)
        _finish(experiment, loggers, {"zero_shot": zero_shot, "final": final}, trained)
    return 0


def train(experiment: Experiment) -> int:
    """Trains without any evaluation before or after; returns the exit status."""
    with opened_loggers(experiment) as loggers:
        if not _train_stages(experiment, loggers):
            return _interrupted(experiment, loggers)
        close_loggers(loggers)
    folder = experiment.folder
    experiment.say(f"weights: {folder.best} (best on validation), {folder.last.name} (last step)")
    experiment.say("\n".join(experiment.label.notes()))
    return 0


def evaluate(experiment: Experiment) -> int:
    """Evaluates without training and returns the exit status.

    Without `model.checkpoint` the phase is zero_shot. With it, the phase is final, because the weights are trained.
    """
    _load_what_scores(experiment)
    with opened_loggers(experiment) as loggers:
        recipe = experiment.recipe
        model = load_model(experiment, recipe.model.checkpoint)
        if recipe.model.checkpoint is None:
            phases = {"zero_shot": _zero_shot(experiment, loggers, model, conditions=recipe.eval.conditions)}
        else:
            phases = {"final": _final(experiment, loggers, model, conditions=recipe.eval.conditions, step=0)}
        _finish(experiment, loggers, phases, model)
    return 0


def _load_what_scores(experiment: Experiment) -> None:
    """Loads the text model of BERTScore once, so that no phase is answered and then not scored."""
    evaluation = experiment.recipe.eval
    if evaluation.bertscore and evaluation.bertscore_at and experiment.rank == 0:
        load_text_model(named_model(evaluation.bertscore))


def _zero_shot_alone(experiment: Experiment, loggers: Sequence[Logger], start: Path | None) -> PhaseScores:
    model = load_model(experiment, start)
    scores = _zero_shot(experiment, loggers, model, conditions=experiment.recipe.eval.asked_at("zero_shot"))
    if isinstance(model, LoadedModel):
        asked = weakref.ref(model.assembled.model)
        del model
        check_freed(asked, what="the model of the zero-shot evaluation")
    return scores


def _zero_shot(
    experiment: Experiment, loggers: Sequence[Logger], model: AskedModel, *, conditions: Sequence[Condition]
) -> PhaseScores:
    if experiment.rank == 0:
        write_json(experiment.folder.weights, model.provenance)
    return _phase(experiment, loggers, model, "zero_shot", experiment.folder.zero_shot, conditions, step=0)


def _train_stages(experiment: Experiment, loggers: Sequence[Logger]) -> bool:
    began_s, is_begun = time.monotonic(), experiment.folder.saved_step() > 0
    start = experiment.recipe.model.checkpoint or first_weights(experiment)
    for planned in planned_stages(experiment.recipe):
        # A stage writes its last weights before its last state, so the weights exist once this step is saved.
        step = experiment.folder.saved_step()
        trained = step > planned.last_step or (step == planned.last_step and not experiment.folder.validation_due())
        is_done = trained or planned.number in experiment.folder.early_stops
        if not is_done and not _train_stage(experiment, loggers, planned, start):
            return False
        start = experiment.folder.stage_weights(planned.number)
    if not is_begun:
        experiment.left.took_s["training"] = round(time.monotonic() - began_s, 1)
    return True


def _train_stage(experiment: Experiment, loggers: Sequence[Logger], planned: PlannedStage, start: Path | None) -> bool:
    model = load_trainable(experiment, planned.stage, start)
    log_parts(experiment, loggers, planned, model.rows)
    if experiment.rank == 0:
        experiment.folder.note_learnt(experiment.learnt)
    is_done = fit(experiment, planned, model, loggers)
    learnt = weakref.ref(model.assembled.model)
    del model
    check_freed(learnt, what=f"the model of the stage {planned.stage.name}")
    return is_done


def _final(
    experiment: Experiment,
    loggers: Sequence[Logger],
    model: AskedModel,
    *,
    conditions: Sequence[Condition],
    step: int,
    before: PhaseScores | None = None,
) -> PhaseScores:
    return _phase(experiment, loggers, model, "final", experiment.folder.final, conditions, step=step, before=before)


def _phase(
    experiment: Experiment,
    loggers: Sequence[Logger],
    model: AskedModel,
    name: str,
    out_dir: Path,
    conditions: Sequence[Condition],
    *,
    step: int,
    before: PhaseScores | None = None,
) -> PhaseScores:
    groups = tested_groups(experiment)
    began_s, is_begun = time.monotonic(), any(out_dir.glob("*.jsonl"))
    waited: dict[str, float] = {}
    answers = answer_groups(
        experiment,
        model,
        groups,
        out_dir=out_dir,
        readings=experiment.recipe.eval.known_readings,
        conditions=conditions,
        title=name.replace("_", "-"),
        repeats=experiment.recipe.eval.draws(conditions),
        on_waited=lambda share: waited.update({f"{name}/{WAITED}": share}),
    )
    experiment.left.images = len(groups)
    if not is_begun:
        experiment.left.answered(len(groups) * len(conditions), time.monotonic() - began_s)
    questions = [question for group in groups for question in group.questions]
    judge_phase(experiment, name, questions, out_dir=out_dir)
    scores = score_answers(experiment, questions, answers, out_dir=out_dir, phase=name, before=before)
    took_s = time.monotonic() - began_s
    if not is_begun:
        experiment.left.took_s[name] = round(took_s, 1)
    experiment.say(f"{name.replace('_', '-')}: {phase_text(scores, experiment.benchmark)}, in {clock(took_s)}")
    also = {**waited, f"{name}/{TOOK}": took_s}
    log_phase(experiment, loggers, name, scores, groups=groups, out_dir=out_dir, step=step, also=also)
    return scores


def _finish(
    experiment: Experiment, loggers: Sequence[Logger], phases: Mapping[str, PhaseScores], model: AskedModel
) -> None:
    # A training needs neither, nor what they import.
    from medtune.eval.report.write import write_report
    from medtune.trainer.experiment.audit import audit_without_asking

    recipe, folder = experiment.recipe, experiment.folder
    written = write_results(
        experiment,
        phases,
        model=recipe.model.shown_name,
        protocol=protocol_facts(recipe, experiment.benchmark),
        trained_on=experiment.trained_on,
        stopped_early=_stopped_early(experiment),
        weights_commit=", ".join(f"{where} at commit {commit}" for where, commit in folder.commits.items()),
        unavailable=_unavailable(recipe),
        judged_by=judge_command_line(folder.root, recipe),
    )
    experiment.say(written.text)
    if dashboard := dashboard_of(loggers):
        last_step = recipe.total_steps if len(phases) == 2 else 0
        dashboard.show_results(phases, written.gain, folder, last_step=last_step, split=recipe.eval.split)
    # The probe of the audit asks the tower on rank 0, and the other ranks help where they share it.
    with model.lock_step() if isinstance(model, LoadedModel) else nullcontext():
        if experiment.rank == 0:
            experiment.say(audit_without_asking(experiment, model))
    close_loggers(loggers)
    if experiment.rank == 0:
        report = write_report(folder.root, paper_of)
        experiment.say(f"report: {report}\nOpen it in a browser: {report.resolve().as_uri()}")


def _stopped_early(experiment: Experiment) -> str:
    names = {number: stage.name for number, stage in enumerate(experiment.recipe.stages, 1)}
    stops = sorted(experiment.folder.early_stops.items())
    return "; ".join(f"stage {names[number]} {why}" if len(names) > 1 else why for number, why in stops)


def _unavailable(recipe: Recipe) -> dict[Reading, str]:
    endpoint = recipe.model.endpoint
    return {"likelihood": NO_LIKELIHOOD} if endpoint and not endpoint.prompt_logprobs else {}


def _interrupted(experiment: Experiment, loggers: Sequence[Logger]) -> int:
    folder = experiment.folder
    close_loggers(loggers)
    if experiment.rank == 0:
        mark_stopped(folder.root, asked_to_stop())
    barrier()
    experiment.say(f"stopped at step {folder.saved_step()}; continue with --resume --out {folder.root}")
    return INTERRUPTED
