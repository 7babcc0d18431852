"""`medtune validate`: checks a recipe on any machine, before a GPU is used for it.

It checks the fields, files and memory, and shows the trainable parts and one batch with its labels and token lengths.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest

import torch

from medtune.benchmarks import find_benchmark
from medtune.data.types import SPLITS
from medtune.eval.asking.plan import plan_visits
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import Assembled, MediaBatch, Model
from medtune.models.endpoint.messages import cost_text
from medtune.models.endpoint.replies import num_requests, total_tokens
from medtune.models.endpoint.settings import Endpoint
from medtune.models.sequence.builder import IGNORED, Template
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.tuning.apply import set_learning
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import quantize_language, set_types
from medtune.models.weights.export import assemble_model, check_loading
from medtune.models.weights.loading_options import CODES
from medtune.trainer.commands.arguments import Commands, add_recipe
from medtune.trainer.experiment.for_model import crop_said
from medtune.trainer.experiment.open_data import OpenedData, cannot_divide, missing_data, missing_weights, open_data
from medtune.trainer.experiment.runnable import LONGEST, adapted_as_stages_say, refuse_long_questions, wrong_precision
from medtune.trainer.launch.imports import import_parts, importing, keep_imported
from medtune.trainer.losses import learns_from, loss_said
from medtune.trainer.plan.devices import on_devices, parse_devices, this_machine
from medtune.trainer.plan.features import features_said
from medtune.trainer.plan.missing import missing_memory, plan_table, sizes_of
from medtune.trainer.plan.plan import ASSUMED_TOKENS, Planner, Sizes
from medtune.trainer.recipe.check import primary_parser
from medtune.trainer.recipe.judge import JudgeSettings, check_can_judge
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import AUTO, Recipe, Stage
from medtune.trainer.replies.check import check_losses, replies_said
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.budget import TokenOrder
from medtune.trainer.training.mixture import begins_with_words, described, stage_mixture
from medtune.trainer.training.stages import can_stop_early, part_table, with_counted_epochs
from medtune.trainer.volume_cache import size_said, wanted


def validate_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument(
        "--no-weights", action="store_true", help="Neither fetches nor loads pretrained weights; shows no labels then."
    )
    parser.add_argument(
        "--devices",
        metavar="NxNAME-SIZEGB",
        help="The number, name and memory in GB of the devices that the run will have, for instance 4xA6000-48GB, with "
        "the number of machines in front 2x8xA100-80GB (default: the devices of this machine).",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=ASSUMED_TOKENS,
        metavar="N",
        help="Tokens of the longest training row, for the plan of the memory where neither data nor a tokenizer "
        f"is here (default: {ASSUMED_TOKENS}).",
    )


def validate_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune validate`: prints what a run would do and what it lacks; returns 0 if nothing, else 1."""
    recipe = read_recipe(options.recipe, options.overrides)
    with importing():
        import_parts(recipe)
        keep_imported()
    return validate(recipe, weights=not options.no_weights, devices=options.devices, tokens=options.tokens)


def validate(recipe: Recipe, *, weights: bool, devices: str | None = None, tokens: int = ASSUMED_TOKENS) -> int:
    """Prints a description of a run and all that is missing for it on this machine; needs no GPU.

    Without weights the parameters are counted on a model without them, and no labels are shown, because there is no
    tokenizer. `devices`, as `parse_devices` reads them, also say how many the run has; `tokens` is the longest row
    where nothing here says it.
    """
    check_losses(recipe)
    endpoint = recipe.model.endpoint
    no_data = missing_data(recipe, find_benchmark(recipe.data.benchmark))
    if endpoint is not None:
        data = None if no_data else _show_data(recipe, training=False)
        return _said_missing([no_data, _show_served(endpoint, data)])
    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    check_loading(recipe.model.name, entry, recipe.model)
    available = this_machine() if devices is None else parse_devices(devices)
    recipe = recipe if devices is None else on_devices(recipe, available)
    no_weights = missing_weights(recipe, entry)
    data = None if no_data else _show_data(recipe, training=True)
    for said in [] if data is None else replies_said(data.recipe, data.training_sets, limit=None):
        print(f"replies    {said}")
    print(f"model      {entry.title}")
    loadable = weights and not no_weights
    unproven = _unproven(recipe) if loadable and data is not None and recipe.model.name == AUTO else None
    model, assembled, adapted = _built(recipe, entry, loaded=loadable)
    _show_model(recipe, entry, model, assembled, adapted)
    for stage in recipe.stages:
        _show_stage(recipe, stage, model)
    sizes, item = Sizes(row_tokens=tokens), None
    if assembled is None:
        print("labels     no weights were loaded: no labels or token lengths could be shown")
    elif data is not None:
        item = _show_batch(data, assembled)
        sizes = sizes_of(data, assembled)
    # Code ids are made by the tower, whose weights may not be here.
    if data is not None and recipe.data.cache and (loadable or recipe.model.variant != CODES):
        sizes = replace(sizes, cache_bytes=_show_cache(recipe))
    undivided = cannot_divide(model, recipe)
    # With several stages, a model is stored as the last one needs it.
    given_up = assembled is None and len(recipe.stages) == 1
    planner = Planner(entry, sizes, item, adapted=(recipe, model) if given_up else None)
    plan = planner.plan(recipe, available)
    print(f"\nmodel has  {plan.parameters / 1e9:.2f} billion parameters\n{plan_table(plan, available, recipe, sizes)}")
    for number, line in enumerate(features_said(recipe, model, plan, data)):
        print(f"{'' if number else 'features':<10} {line}")
    lacks = [
        no_data,
        no_weights if weights else None,
        unproven,
        undivided,
        missing_memory(plan, recipe, entry, available, planner),
        wrong_precision(recipe) if devices is None else None,
    ]
    return _said_missing(lacks)


def _built(recipe: Recipe, entry: ZooEntry, *, loaded: bool) -> tuple[Model, Assembled | None, tuple[str, ...]]:
    """Returns the model as the run adapts it, its assembly (None without weights), and notes on what is adapted."""
    assembled = assemble_model(recipe.model.name, recipe.train.seed, recipe.model) if loaded else None
    model = entry.skeleton(recipe.model) if assembled is None else assembled.model
    # The wider of the two that "auto" may become on the device of the run.
    precision: Precision = "32-true" if recipe.train.precision == "auto" else recipe.train.precision
    if recipe.model.language_bits is not None:
        device = torch.device("meta" if assembled is None else "cpu")
        quantize_language(model, precision=precision, device=device)
    notes = adapted_as_stages_say(recipe, model)
    set_types(model, precision)
    if assembled is not None and recipe.model.checkpoint is not None:
        from medtune.trainer.experiment.load_model import load_checkpoint

        load_checkpoint(recipe, model, recipe.model.checkpoint)
    return model, assembled, notes


def _show_model(
    recipe: Recipe, entry: ZooEntry, model: Model, assembled: Assembled | None, adapted: Sequence[str]
) -> None:
    origins = [] if assembled is None else [f"{group}: {origin}" for group, origin in assembled.provenance.items()]
    for line in (*adapted, *origins):
        print(f"           {line}")
    if assembled is not None and "thinking" in entry.takes:
        print(f"           {_thinking(recipe, assembled)}")
    if model.whole_logits_because is not None:
        print(f"           holds the logits of all target tokens at once: {model.whole_logits_because}")
    if recipe.train.precision == "auto":
        print("precision  auto: counted as 32-true; it is bf16-mixed on a device with bfloat16")
    for said in dict.fromkeys(loss_said(stage.loss) for stage in recipe.stages):
        print(f"loss       {said}")


def _thinking(recipe: Recipe, assembled: Assembled) -> str:
    mode, opened = recipe.model.thinking, assembled.opened.strip()
    if not opened:
        said = "replies begin with the answer; where the template has a thought, it is empty and not learnt"
    elif mode == "on":
        said = f"replies begin with {opened}, and so many as {recipe.eval.max_new_tokens} tokens are read"
    else:
        said = f"WARNING: replies begin with {opened} and are cut behind {recipe.eval.max_new_tokens} tokens, and "
        said += "training teaches to close it at once; off asks and learns without a thought"
    return f"thinking {mode}: {said}"


def _show_served(endpoint: Endpoint, data: OpenedData | None) -> str | None:
    """Prints number and cost of the requests of `medtune eval`, sending none; returns what is missing, or None."""
    print(f"model      {endpoint.model}, behind {endpoint.base_url}; it can be evaluated, not trained")
    likelihood = "from prompt_logprobs" if endpoint.prompt_logprobs else "n/a"
    print(f"readings   generation; log-likelihood {likelihood}")
    if data is not None:
        recipe = data.recipe
        plan = plan_visits(
            data.prepared.groups(recipe.eval.split),
            data.benchmark,
            answer_format=recipe.model.answer_format,
            readings=recipe.eval.known_readings,
            conditions=recipe.eval.conditions,
            seed=recipe.train.seed,
            repeats=recipe.eval.draws(recipe.eval.conditions),
        )
        asked = [(visit.shown, request) for visits in plan for visit in visits for request in visit.requests]
        tokens = total_tokens(endpoint, asked, max_new_tokens=recipe.eval.max_new_tokens)
        print(f"cost       {cost_text(endpoint, tokens, number=sum(num_requests(each) for _, each in asked))}")
        print(f"privacy    the images and questions of the split {recipe.eval.split} are sent to that server")
    if endpoint.key_env is not None and not os.environ.get(endpoint.key_env):
        return f"key: the environment variable {endpoint.key_env} is not set; export it before `medtune eval`"
    return None


def _unproven(recipe: Recipe) -> str | None:
    # This import loads Lightning.
    from medtune.trainer.doctor import open_candidate, proof_of

    record = proof_of(open_candidate(recipe), say=print)
    wrong = next((check for check in record.checks if check.passed is False), None)
    if wrong is None:
        return None
    return (
        f"proof: {recipe.model.weights} is not read as plain transformers reads it, so that results would be wrong\n"
        f"     {wrong.name}: {wrong.detail}\n"
        "     an architecture that fails needs a family of its own (CONTRIBUTING.md, `Add a family`)"
    )


def _said_missing(found: Sequence[str | None]) -> int:
    lacks = [lack for lack in found if lack]
    if lacks:
        print("\nmissing here:\n" + "\n".join(f"{number}. {lack}" for number, lack in enumerate(lacks, 1)))
    return 1 if lacks else 0


def _show_stage(recipe: Recipe, stage: Stage, model: Model) -> None:
    rows = set_learning(model, stage.tuning)
    long = f"{stage.steps} steps" if stage.epochs is None else f"{stage.epochs:g} epochs"
    only = "".join(f", {facet} {' or '.join(values)}" for facet, values in stage.only.items())
    print(f"\nstage      {stage.name}: {long} of {stage.batch_size} groups{only}")
    print(f"{_early(recipe, stage)}\n{part_table(rows)}")


def _show_cache(recipe: Recipe) -> float:
    found = wanted(recipe)
    if found is None or not found.scans:
        return 0.0
    each = found.entry_bytes(found.scans)
    whole = found.volumes * each
    print(f"cache      {found.volumes} volumes in {found.cache.folder}: {found.input.kept_as}")
    print(f"           at most {size_said(each)} each, {size_said(whole)} in all; `medtune prepare --cache` fills it")
    return whole


def _early(recipe: Recipe, stage: Stage) -> str:
    settings = recipe.train.early_stopping
    if settings is None:
        return ""
    if not can_stop_early(stage, recipe):
        return "           has too few validations to stop early\n"
    metric = settings.metric or find_benchmark(recipe.data.benchmark).primary
    return (
        f"           stops early after {settings.patience} validations without a better val/{metric}, one every "
        f"{recipe.eval.every_steps} steps\n"
    )


def _show_data(recipe: Recipe, *, training: bool) -> OpenedData:
    data = open_data(recipe, training=training)
    prepared = data.prepared
    print(f"data       {prepared.root}, hash {prepared.data_hash[:16]}, {prepared.manifest.provenance}")
    print(f"prompts    {prepared.manifest.prompts}")
    if prepared.manifest.unofficial_split:
        print(f"           unofficial split by {prepared.manifest.unofficial_split}: not as published")
    if prepared.manifest.leaks:
        print(f"           leaks of the data's own split: {prepared.manifest.leaks}")
    for split in SPLITS:
        print(f"           {split:<6}{prepared.num_questions(split):>7} questions")
    for line in (*prepared.manifest.lookalikes.lines(), *(each.lookalikes for each in data.training_sets)):
        if line:
            print(f"           look-alikes: {line}")
    for note in prepared.manifest.warnings:
        print(f"           {note}")
    if training and (alone := _shares_nothing(data)):
        print(f"shares     {alone}")
    if recipe.model.crop_organs is not None:
        print(f"sees       {crop_said(group for split in SPLITS for group in prepared.groups(split))}")
    print(f"scores     {_scored(data)}")
    if data.recipe.eval.judge is not None:
        print(f"judge      {_judged(data, data.recipe.eval.judge)}")
    return data


def _shares_nothing(data: OpenedData) -> str:
    """Returns what it costs that no two questions share the reading of what they are about; "" where some do."""
    if data.recipe.train.group_questions != 1:
        return ""
    groups = [group for each in data.training_sets for group in each.prepared.groups("train") if group.media]
    asked = sum(len(group.questions) for group in groups)
    if asked == len(groups):
        return ""
    return (
        f"WARNING: nothing in training, as train.group_questions is 1: {len(groups):,} pictures or scans are read for "
        f"each of their {asked:,} questions. A larger number reads each once for so many; divide train.batch_size by it"
    )


def _judged(data: OpenedData, judge: JudgeSettings) -> str:
    check_can_judge(judge, data.benchmark)
    task, served = data.benchmark.judging, judge.endpoint
    free = sum(task is not None and task.covers(each) for each in data.prepared.questions(data.recipe.eval.split))
    where = "in this process" if served is None else f"at {served.base_url}, which is sent questions and answers"
    cap = "" if served is None else "; no cap" if served.max_usd is None else f"; at most {served.max_usd:g} USD"
    return f"{judge.model} {where}: {free:,} free answers at {', '.join(data.recipe.eval.judge_at)}{cap}"


def _scored(data: OpenedData) -> str:
    split, benchmark = data.recipe.eval.split, data.benchmark
    asked = data.prepared.questions(split)
    covered = sum(map(benchmark.primary_metric.covers, asked))
    readings = " and ".join(data.recipe.eval.known_readings)
    read = f"{benchmark.primary}, read by {primary_parser(data.recipe, benchmark)} (asked for: {readings})"
    return f"{read}; about {covered:,} of the {len(asked):,} questions of {split}"


def _show_batch(data: OpenedData, assembled: Assembled) -> MediaBatch | None:
    """Shows the first batch; returns its first media item, None where it shows none."""
    refuse_long_questions(data.recipe, data.prepared, data.benchmark, data.training_sets, assembled)
    recipe = with_counted_epochs(data.recipe, [each.prepared for each in data.training_sets], limit=None)
    stage, devices = recipe.stages[0], recipe.train.devices
    mixture = stage_mixture(recipe, stage, data.training_sets, limit=None)
    print(f"learns     {described(recipe, mixture)}")
    if begins_with_words(recipe):
        print("           the projector begins with the words of the train split's answers, behind zero-shot")
    batches = stage_batches(mixture, stage, assembled, world_size=devices)
    order = batches.order
    batch = batches[0]
    rows, length = batch.rows.ids_BL.shape
    if isinstance(order, TokenOrder):
        print(order.filling().said())
    print(f"first step {batch.step_target_tokens} target tokens; accumulates {order.accumulate} x {devices} devices")
    drawn = [mixture.group(each) for each in order.micro_batch(0, 0, 0)]
    print(
        f"one pass   {len(batch.question_ids)} questions about {sum(len(group.media) for group in drawn)} media items "
        f"in {rows} rows of {length} tokens ({1 - batch.rows.num_tokens / (rows * length):.0%} padding)"
    )
    if assembled.model.plain_because is not None:
        print(f"           a row for each question: {assembled.model.plain_because}")
    if batches.sequences.num_text_only:
        print(f"           {batches.sequences.num_text_only} groups are learnt without their media")
    lengths = sorted(len(layout.ids) for draw in batches.first_epoch() for layout in batches.sequences.layouts(draw))
    print(f"tokens     per training row: median {lengths[len(lengths) // 2]}, longest {lengths[-1]}")
    print(
        f"           eval.batch_tokens {recipe.eval.batch_tokens}: {recipe.eval.batch_tokens // lengths[-1]} such rows"
    )
    if cut := cut_answers(data, assembled):
        print(f"warning    {cut}")
    draw = order.micro_batch(0, 0, 0)[0]
    learnt = (
        "[[learnt]]" if learns_from(stage.loss) == "answers" else "[[the true answer]], in whose place replies stand"
    )
    print(f"\nlabels     of the first row, question {mixture.group(draw).questions[0].id}: {learnt}, (visual tokens)")
    print(labelled_text(batches.sequences.layouts(draw)[0], assembled.template))
    return None if batch.media is None else batch.media[:1]


def cut_answers(data: OpenedData, assembled: Assembled) -> str:
    """Returns a warning where a true answer that is to be generated is longer than replies may be; "" where none is."""
    recipe, answer_format = data.recipe, data.recipe.model.answer_format
    asked = [(group, question) for group in data.prepared.groups(recipe.eval.split) for question in group.questions]
    if "generation" not in recipe.eval.known_readings:
        asked = [(group, question) for group, question in asked if not question.options]
    said = [(group, question, data.benchmark.render(question, answer_format)) for group, question in asked]
    longest = 0
    for group, question, prompt in nlargest(LONGEST, said, key=lambda each: len(each[2].target)):
        shapes = tuple(map(assembled.transform.shape, group.media))
        sequence = assembled.template.layout(prompt.text, prompt.target, shapes=shapes, turns=question.turns)
        # The end of the turn is not part of a reply.
        longest = max(longest, sequence.num_targets - 1)
    if longest <= recipe.eval.max_new_tokens:
        return ""
    return (
        f"the longest true answer of the split {recipe.eval.split} has {longest} tokens, and replies are cut behind "
        f"{recipe.eval.max_new_tokens}: set eval.max_new_tokens={longest + 1} or more"
    )


def labelled_text(layout: Layout, template: Template) -> str:
    """Returns the row as text, with the learnt part in double brackets and the number of its visual tokens."""
    pieces = template.pieces(layout.ids)
    for span in layout.media_spans:
        pieces[span.start : span.stop] = [
            f"({span.stop - span.start} visual tokens)",
            *[""] * (span.stop - span.start - 1),
        ]
    learnt = [label != IGNORED for label in layout.labels]
    text = ""
    for here, (piece, is_learnt) in enumerate(zip(pieces, learnt, strict=True)):
        if is_learnt and not learnt[here - 1]:
            text += "[["
        text += piece
        if is_learnt and (here + 1 == len(pieces) or not learnt[here + 1]):
            text += "]]"
    return text


COMMANDS: Commands = {"validate": (validate_arguments, validate_command)}
