"""Refuses settings of draws and pairs with which no stage could learn, and says what its replies are paid."""

from collections.abc import Sequence

from medtune.data.types import REJECTED, Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.normalised_text import same_text
from medtune.eval.scoring.parse_replies import parse
from medtune.eval.scoring.reply_score import ReplyScore, refuse_unscored
from medtune.trainer.losses import find_loss, learns_from, steps_per_draw
from medtune.trainer.recipe.replies import ReplySettings
from medtune.trainer.recipe.schema import Recipe, Stage
from medtune.trainer.replies.prompts import has_pair
from medtune.trainer.rewards import WeighedRewards, refuse_unknown
from medtune.trainer.training.mixture import TrainingSet
from medtune.trainer.training.stages import training_groups


def check_losses(recipe: Recipe) -> None:
    """Refuses losses that are not there, and settings of draws and pairs that no stage could use."""
    reads = False
    for number, stage in enumerate(recipe.stages):
        find_loss(stage.loss)
        if learns_from(stage.loss) == "answers":
            continue
        reads = True
        _check_stage(recipe, stage, block=f"train.stages.{number}" if recipe.train.stages else "train")
    if not reads and recipe.train.replies != ReplySettings():
        raise ValueError(
            f"train.replies is set, and train.loss.name {recipe.train.loss.name!r} learns the true answers; leave it "
            "out, or take a loss over draws (grpo) or pairs (dpo)"
        )


def _check_stage(recipe: Recipe, stage: Stage, *, block: str) -> None:
    settings, name = stage.replies, f"{block}.loss.name is {stage.loss.name!r}"
    if recipe.model.endpoint is not None:
        raise ValueError(
            f"{name}, and model.endpoint names a served model, which is not trained; leave one of them out"
        )
    if stage.micro_batch_tokens is not None:
        raise ValueError(
            f"{block}.micro_batch_tokens is {stage.micro_batch_tokens} and {name}, whose replies have no length before "
            f"they are drawn or chosen; give {block}.micro_batch_size"
        )
    if draws(stage):
        refuse_unknown(settings.reward)
    if settings.judge:
        _check_judge(recipe, stage, block=block)
    every = steps_per_draw(stage)
    lengths = {
        f"{block}.max_steps": stage.max_steps,
        "eval.every_steps": recipe.eval.every_steps,
        "train.save_every_steps": recipe.train.save_every_steps,
    }
    for field, steps in lengths.items():
        if steps is not None and steps % every:
            raise ValueError(
                f"{field} is {steps} and {block}.replies.num_iterations is {every}: states are saved and questions "
                f"asked between two draws; make {field} a multiple of it"
            )


def _check_judge(recipe: Recipe, stage: Stage, *, block: str) -> None:
    field, judge = f"{block}.replies.judge", recipe.eval.judge
    if not draws(stage):
        raise ValueError(f"{field} is true, and the stage draws no replies; leave it out")
    if judge is None:
        raise ValueError(f"{field} is true, and no judge is named; give eval.judge, or leave {field} out")
    if judge.endpoint is not None and judge.endpoint.max_usd is None:
        raise ValueError(
            f"{field} is true, and eval.judge.endpoint has no cap on costs: every step asks for verdicts. Give "
            "eval.judge.endpoint.max_usd with the prices of tokens (for a server of your own prices of 0)"
        )


def draws(stage: Stage) -> bool:
    """Returns whether a stage learns from replies that the model draws."""
    learns = learns_from(stage.loss)
    return learns == "draws" or (learns == "pairs" and stage.replies.pairs == "draws")


def replies_at_once(stage: Stage) -> tuple[int, int]:
    """Returns how many replies are drawn to a question, and the largest length of one in tokens; zeros if none are."""
    return (stage.replies.draws, stage.replies.max_new_tokens) if draws(stage) else (0, 0)


def rewards_of(stage: Stage, training_sets: Sequence[TrainingSet]) -> WeighedRewards:
    """Returns what the draws of a stage are paid."""
    settings = stage.replies
    scores = [ReplyScore(each.benchmark, settings.metric, has_judge=settings.judge) for each in training_sets]
    return WeighedRewards(scores, stage.replies.reward)


def replies_said(recipe: Recipe, training_sets: Sequence[TrainingSet], *, limit: int | None) -> list[str]:
    """Returns a line for each stage that learns from draws or pairs; refuses questions that it could not learn from."""
    return [
        _report(recipe, stage, training_sets, limit=limit)
        for stage in recipe.stages
        if learns_from(stage.loss) != "answers"
    ]


def _report(recipe: Recipe, stage: Stage, training_sets: Sequence[TrainingSet], *, limit: int | None) -> str:
    asked: list[list[Question]] = [
        [
            question
            for group in training_groups(recipe, each.prepared, stage, limit=limit)
            for question in group.questions
        ]
        for each in training_sets
    ]
    settings = stage.replies
    number = sum(map(len, asked))
    if not draws(stage):
        found = sum(has_pair(question, settings.pairs) for each in asked for question in each)
        if not found:
            need = (
                f"brought a worse reply ({REJECTED!r}): prepare your table with --columns rejected=COLUMN"
                if settings.pairs == REJECTED
                else "has two options or more: set train.replies.pairs=draws"
            )
            raise ValueError(f"train.replies.pairs is {settings.pairs!r}, and none of the {number:,} questions {need}")
        if settings.pairs == REJECTED:
            _refuse_alike(asked, training_sets)
        return f"pairs of {settings.pairs}: {found:,} of {number:,} questions have one, the others are left out"
    metrics = refuse_unscored(list(zip(rewards_of(stage, training_sets).scores, asked, strict=True)))
    paid = ", ".join(f"{weight:g} x {name}" for name, weight in settings.reward.items())
    scored = ", ".join(f"{name} for {count:,} questions" for name, count in metrics.items())
    drawn = f"{settings.draws} draws of up to {settings.max_new_tokens} tokens to each question"
    return f"{drawn}, paid {paid} (score: {scored})"


def _refuse_alike(asked: Sequence[Sequence[Question]], training_sets: Sequence[TrainingSet]) -> None:
    """Refuses pairs whose worse reply says what the true answer says."""
    alike = [
        question
        for each, questions in zip(training_sets, asked, strict=True)
        for question in questions
        if (worse := question.printed.get(REJECTED)) and _says_the_truth(each.benchmark, question, worse)
    ]
    if alike:
        raise ValueError(
            f"train.replies.pairs is {REJECTED!r}, and {len(alike):,} worse replies read as the true answer, for "
            f"instance that to {alike[0].id!r}: correct the table's column {REJECTED!r}, empty these cells, or set "
            "train.replies.pairs=draws"
        )


def _says_the_truth(benchmark: Benchmark, question: Question, worse: str) -> bool:
    said = Prediction(PredictionKey(question.id, "image", "generation", 0), text=worse, finish_reason="stop")
    read = parse(question, said, benchmark)[next(iter(benchmark.parsers))]
    return ParsedReply(question, said, read).correct or same_text(worse, question.answer)
