"""Refuses a recipe with values that no run could use, before any data or model is loaded."""

import dataclasses
import re
from collections.abc import Sequence

from medtune.data.bounds import check_bounds
from medtune.data.types import Question, Reading
from medtune.eval.asking.conditions import READINGS
from medtune.eval.benchmark import Benchmark
from medtune.eval.results.schema import ProtocolFacts, UsedProtocol
from medtune.eval.scoring import parse_replies
from medtune.eval.scoring.bertscore import BertModel, check_model, named_model
from medtune.eval.scoring.parse_replies import LIKELIHOOD
from medtune.models.endpoint.settings import Endpoint, check_endpoint
from medtune.models.weights.loading_options import BLIND, CODES, set_fields
from medtune.trainer.recipe.judge import JudgeSettings, check_judge
from medtune.trainer.recipe.schema import FOREIGN, SERVED, DataBlock, EvalBlock, ModelBlock, Recipe, Stage

MIN_FOLDS = 2


def check_recipe(recipe: Recipe) -> None:
    """Refuses a recipe with values that no run could use."""
    evaluation = recipe.eval
    _check_served(recipe)
    check_bounds(recipe)
    _check_mixture(recipe.data)
    _check_folds(recipe)
    _check_changes(recipe)
    _check_drawing(recipe)
    if empty := [key for key, values in (recipe.grid or {}).items() if not values]:
        raise ValueError(f"grid.{empty[0]} has no values; leave it out, or say which values to run with")
    if evaluation.readings == ():
        raise ValueError("eval.readings is empty; it must hold likelihood, generation or both")
    if evaluation.only and evaluation.split == "train":
        raise ValueError(
            "eval.only is set and eval.split is train: it would restrict what is learnt too; set train.stages.only for "
            "that, or choose another eval.split"
        )
    if "image" not in evaluation.conditions:
        raise ValueError(f"eval.conditions is {evaluation.conditions}; it must hold 'image'")
    if evaluation.bertscore is not None:
        check_model(named_model(evaluation.bertscore), named_by="eval.bertscore")
    if evaluation.judge is not None:
        check_judge(evaluation.judge, where="eval.judge.", how="leave eval.judge out to judge later")
    if recipe.model.endpoint is None and recipe.model.name != FOREIGN:
        _check_training(recipe)
        _check_precision(recipe)


def _check_drawing(recipe: Recipe) -> None:
    evaluation, endpoint = recipe.eval, recipe.model.endpoint
    if endpoint is not None and evaluation.temperature > 0:
        raise ValueError(
            f"eval.temperature is {evaluation.temperature}; it is for models in this process: set "
            "model.endpoint.temperature"
        )
    if evaluation.temperature > 0 and "generation" not in evaluation.known_readings:
        raise ValueError(
            f"eval.temperature is {evaluation.temperature} and eval.readings is {evaluation.readings}: a "
            "log-likelihood is computed, not drawn; add generation, or set eval.temperature=0"
        )
    temperature = evaluation.temperature if endpoint is None else endpoint.temperature
    if "image" in evaluation.condition_repeats:
        raise ValueError(
            "eval.condition_repeats.image: replies to the image are drawn as often as any that they are compared with; "
            "set eval.repeats"
        )
    if max(evaluation.repeats, *evaluation.condition_repeats.values(), 1) > 1 and temperature == 0:
        field = "eval.temperature" if endpoint is None else "model.endpoint.temperature"
        raise ValueError(
            f"{_repeats_text(evaluation)}; greedy answers do not differ. Set {field} above 0, or repeats to 1"
        )


def _repeats_text(evaluation: EvalBlock) -> str:
    if evaluation.repeats > 1:
        return f"eval.repeats is {evaluation.repeats}"
    return f"eval.condition_repeats is {evaluation.condition_repeats}"


def _check_served(recipe: Recipe) -> None:
    model = recipe.model
    if (model.name == SERVED) != (model.endpoint is not None):
        raise ValueError(
            f"model.name {SERVED!r} and the block model.endpoint (base_url, model, ...) go together; here model.name "
            f"is {model.name!r} {'with' if model.endpoint else 'without'} such a block"
        )
    if model.endpoint is None:
        return
    check_endpoint(model.endpoint, where="model.endpoint")
    if "likelihood" in (recipe.eval.readings or ()) and not model.endpoint.prompt_logprobs:
        raise ValueError(
            f"eval.readings is {recipe.eval.readings}: a model behind an endpoint gives no log-probabilities of given "
            "options; set eval.readings=[generation], or for a server of vLLM model.endpoint.prompt_logprobs=true"
        )
    if model.checkpoint is not None:
        raise ValueError("model.checkpoint: a model behind an endpoint takes no weights from here; leave it out")
    if wrong := set_fields(model):
        raise ValueError(
            f"{', '.join(wrong)}: for models in this process; what a served model is shown stands in model.endpoint "
            "(image_max_side, video_frames, video_frames_per_s)"
        )
    if recipe.train.early_stopping is not None:
        raise ValueError("train.early_stopping: a model behind an endpoint is not trained; leave it out")
    if recipe.train.world_size != 1:
        raise ValueError(
            f"train.devices is {recipe.train.devices} and train.nodes is {recipe.train.nodes}: one process asks an "
            "endpoint; raise model.endpoint.concurrency"
        )


def _check_training(recipe: Recipe) -> None:
    train = recipe.train
    if train.stages and (train.max_steps is not None or train.epochs is not None):
        raise ValueError(
            "train.max_steps and train.epochs are for recipes without train.stages; each stage has its own"
        )
    if recipe.model.language_bits is not None and train.divides_weights:
        raise ValueError(
            f"model.language_bits is 4 and train.strategy is {train.strategy}, which cannot share out packed weights; "
            "use deepspeed_stage_2 or ddp: each device then holds the language model in 4 bits"
        )
    if train.optimizer == "adamw_8bit" and (train.strategy == "fsdp" or train.offloads):
        raise ValueError(
            f"train.optimizer is adamw_8bit and train.strategy is {train.strategy}, whose divided or offloaded weights "
            "bitsandbytes cannot update; set train.optimizer=adamw, which is divided as well"
        )
    for number, stage in enumerate(recipe.stages):
        block = f"train.stages.{number}" if train.stages else "train"
        _check_stage(
            stage,
            recipe.model,
            block=block,
            tuning=f"{block}.tuning" if train.stages else "model.tuning",
            shows_nothing=train.text_only_share == 1,
        )


def _check_precision(recipe: Recipe) -> None:
    dtype, precision = recipe.model.dtype, recipe.train.precision
    if recipe.train.strategy == "fsdp" and precision == "16-mixed":
        raise ValueError(
            "train.strategy is fsdp and train.precision is 16-mixed, whose scaled gradients cannot be divided; set "
            "train.precision=bf16-mixed, or train.strategy=deepspeed_stage_3"
        )
    if dtype == "bfloat16" and precision in ("32-true", "16-mixed"):
        raise ValueError(
            f"model.dtype is bfloat16 and train.precision is {precision}, which would compute with weights that were "
            "rounded for nothing; set model.dtype=float32, or train.precision=bf16-mixed"
        )


def _check_stage(stage: Stage, model: ModelBlock, *, block: str, tuning: str, shows_nothing: bool) -> None:
    if (stage.max_steps is None) == (stage.epochs is None):
        how = "neither is given" if stage.epochs is None else "both are given"
        raise ValueError(f"{block}.max_steps, {block}.epochs: {how}; say how long to train with one of them")
    if stage.schedule == "constant" and stage.lr_floor:
        raise ValueError(
            f"{block}.lr_floor is {stage.lr_floor} and {block}.schedule is constant, which does not fall: leave "
            "lr_floor out, or take cosine or linear"
        )
    for part, learns in stage.tuning.parts().items():
        if learns.mode != "frozen" and learns.lr <= 0:
            raise ValueError(f"{tuning}.{part}.lr is {learns.lr}; a part that learns needs a rate above 0")
        if learns.mode == "lora" and learns.lr * learns.lora.lr_ratio > 1:
            raise ValueError(
                f"{tuning}.{part}.lora.lr_ratio is {learns.lora.lr_ratio}; at {tuning}.{part}.lr {learns.lr} B would "
                "learn at a rate above 1, at which no training holds: lower one of them"
            )
        if learns.mode == "part" and learns.parameters is None:
            raise ValueError(f"{tuning}.{part}.parameters is missing; mode part needs to know which of them learn")
        if learns.mode != "frozen" and part != "language" and shows_nothing:
            raise ValueError(
                f"train.text_only_share is 1 and {tuning}.{part}.mode is {learns.mode}: no media are ever shown, so "
                f"that the part {part!r} ({learns.mode}) has no gradient; set its mode to frozen, or the share below 1"
            )
    language = stage.tuning.language
    if model.language_bits is not None and language.mode == "lora" and language.lora.init == "pissa":
        raise ValueError(
            f"model.language_bits is 4 and {tuning}.language.lora.init is pissa, which changes the weights that are "
            "held in 4 bits: take default, or leave model.language_bits out"
        )
    if model.language_bits is not None and stage.tuning.language.mode == "full":
        raise ValueError(
            f"model.language_bits is 4 and {tuning}.language.mode is full; weights in 4 bits cannot learn: use lora"
        )
    if model.variant == CODES and stage.tuning.vision.mode != "frozen":
        raise ValueError(
            f"model.variant is {CODES} and {tuning}.vision.mode is {stage.tuning.vision.mode}; code ids bring no "
            "gradient to the tower: set it to frozen, or leave model.variant out"
        )


def _check_changes(recipe: Recipe) -> None:
    if recipe.data.augment and recipe.model.variant == CODES:
        raise ValueError(
            f"data.augment is {', '.join(recipe.data.augment)} and model.variant is {CODES}; code ids were made of the "
            "scans as they are and cannot be changed: leave data.augment out, or model.variant"
        )


def _check_folds(recipe: Recipe) -> None:
    data = recipe.data
    if data.fold is not None and (data.folds is None or not 1 <= data.fold <= data.folds):
        raise ValueError(f"data.fold is {data.fold}; it must be from 1 to data.folds, which is {data.folds}")
    if data.folds is None:
        return
    if data.folds < MIN_FOLDS:
        raise ValueError(f"data.folds is {data.folds}; a cross-validation needs at least {MIN_FOLDS} folds")
    if recipe.grid and data.fold is None:
        raise ValueError("a grid makes single runs; leave --folds and data.folds out, or set grid=null")
    if recipe.eval.split != "test":
        raise ValueError(f"eval.split is {recipe.eval.split}; with data.folds, each fold is the split test of its run")
    if data.mixture and data.root.resolve() not in [each.root.resolve() for each in data.mixture]:
        raise ValueError("data.folds is set and data.mixture does not name data.root: no run would learn from a fold")


def _check_mixture(data: DataBlock) -> None:
    weights = [folder.weight for folder in data.mixture]
    if len({weight is None for weight in weights}) > 1:
        raise ValueError(f"data.mixture has the weights {weights}; give every part one above 0, or none")
    roots = [folder.root.resolve() for folder in data.mixture]
    if len(set(roots)) < len(roots):
        raise ValueError("data.mixture names a folder twice; give it once, with a larger weight")


def as_published(recipe: Recipe, benchmark: Benchmark) -> Recipe:
    """Returns the recipe with the protocol of the benchmark's authors if it asks for that, else the recipe itself.

    A value that the authors do not state stays as it is in the recipe.
    """
    if recipe.eval.protocol == "recipe":
        return recipe
    published = benchmark.protocol
    if published is None:
        raise ValueError(f"eval.protocol is published; no protocol of {benchmark.title} is known. Leave it out")
    endpoint = recipe.model.endpoint
    own = recipe.eval.temperature if endpoint is None else endpoint.temperature
    temperature = own if published.temperature is None else published.temperature
    # Greedy answers do not differ: the tables about repeats, which are then left out, would hold one answer many times.
    repeats = 1 if temperature == 0 else published.repeats
    evaluation = dataclasses.replace(
        recipe.eval,
        max_new_tokens=published.max_new_tokens or recipe.eval.max_new_tokens,
        temperature=0.0 if endpoint or temperature is None else temperature,
        repeats=repeats,
        condition_repeats={**recipe.eval.condition_repeats, **published.condition_repeats},
    )
    asked = endpoint and dataclasses.replace(endpoint, temperature=temperature)
    return dataclasses.replace(recipe, eval=evaluation, model=dataclasses.replace(recipe.model, endpoint=asked))


def set_by_protocol(written: Recipe, recipe: Recipe) -> str:
    """Returns which settings of a written recipe the published protocol replaced, as a sentence; "" if none."""
    pairs = [
        (name, getattr(written.eval, name), getattr(recipe.eval, name))
        for name in ("temperature", "repeats", "max_new_tokens")
    ]
    if written.model.endpoint and recipe.model.endpoint:
        pairs.append(("temperature", written.model.endpoint.temperature, recipe.model.endpoint.temperature))
    replaced = [f"{name} {ours} by {theirs}" for name, ours, theirs in pairs if ours != theirs]
    return f"eval.protocol: published replaces {', '.join(replaced)}" if replaced else ""


def text_model_at(evaluation: EvalBlock, phase: str) -> BertModel | None:
    """Returns the model for the BERTScore of an evaluation (zero_shot, val, final); None where it has none."""
    named = evaluation.bertscore if phase in evaluation.bertscore_at else None
    return named_model(named) if named else None


def judge_at(evaluation: EvalBlock, phase: str) -> JudgeSettings | None:
    """Returns the judge of an evaluation (zero_shot, val, final); None where it has none."""
    return evaluation.judge if phase in evaluation.judge_at else None


def departure_from_published(recipe: Recipe, benchmark: Benchmark) -> str:
    """Returns how the recipe's answers depart from the published protocol, as a clause; "" if they do not.

    Settings that the authors do not state are not compared. Nor are repeats: a score is the mean over its passes, and
    the tables that are about repeats compare their number themselves.
    """
    if recipe.data.folds is not None:
        return "the questions are those of a cross-validation"
    if recipe.model.name == FOREIGN:
        return "code of the user's own asked the model, with settings that are not recorded"
    published, used = benchmark.protocol, protocol_facts(recipe, benchmark).used
    if published is None:
        return ""
    for name, theirs, ours in (
        ("temperature", published.temperature, used.temperature),
        ("length of replies in tokens", published.max_new_tokens, used.max_new_tokens),
    ):
        if theirs is not None and theirs != ours:
            return f"the {name} was {ours}, the published one is {theirs} (eval.protocol: published sets it)"
    return ""


def protocol_facts(recipe: Recipe, benchmark: Benchmark) -> ProtocolFacts:
    """Returns the protocol that the recipe uses, together with the one that the benchmark's authors published."""
    endpoint = recipe.model.endpoint
    used = UsedProtocol(
        temperature=recipe.eval.temperature if endpoint is None else endpoint.temperature,
        repeats=recipe.eval.repeats,
        condition_repeats=recipe.eval.condition_repeats,
        max_new_tokens=recipe.eval.max_new_tokens,
        thinking=recipe.model.thinking if endpoint is None else _thinking_of_server(endpoint),
        shown="text_only" if recipe.model.vision == BLIND else "",
    )
    return ProtocolFacts(used=used, published=benchmark.protocol)


def _thinking_of_server(endpoint: Endpoint) -> str:
    asked = [f"{name}={value}" for name, value in endpoint.extra_fields.items() if re.search("think|reason", name)]
    return f"as the server decides{', asked with ' if asked else ''}{', '.join(asked)}"


def with_readings(recipe: Recipe, asked: Sequence[Question]) -> Recipe:
    """Returns the recipe with readings that fit the questions, the primary one first; those that it names stay.

    Without named readings, questions with options are read by likelihood and by generation, and free ones by generation
    alone, as are all questions to a served model without `prompt_logprobs`. If no question has options, a likelihood
    that is named beside generation is left out, because there is nothing to compute it of. A parser that is named
    makes its reading the first one, by which all conditions but "image" are asked.
    """
    named = recipe.eval.readings
    has_options = any(question.options for question in asked)
    fitting: tuple[Reading, ...] = READINGS if named is None else named
    endpoint = recipe.model.endpoint
    unlikely = named is None and endpoint is not None and not endpoint.prompt_logprobs
    if "generation" in fitting and (not has_options or unlikely):
        fitting = ("generation",)
    if recipe.eval.parser is not None:
        counted = LIKELIHOOD if recipe.eval.parser.startswith(LIKELIHOOD) else "generation"
        fitting = tuple(sorted(fitting, key=lambda reading: reading != counted))
    return dataclasses.replace(recipe, eval=dataclasses.replace(recipe.eval, readings=fitting))


def primary_parser(recipe: Recipe, benchmark: Benchmark) -> str:
    """Returns the name of the parser whose readings give the score `overall`."""
    return parse_replies.primary_parser(recipe.eval.known_readings, benchmark, named=recipe.eval.parser)
