"""Writes a first recipe for data, with a comment on every field, for `medtune init`.

The numbers are our own choices, made so that a first run ends soon and shows what has to be changed. Nobody has
measured them on these data, and the recipe says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import DEFAULT_FRACTIONS
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS, MediaKind, MediaRef, Question, Split

CPU_GROUPS, GPU_GROUPS = 2400, 12000
"""About how many media groups a first training shows, repeats counted: minutes on a CPU, hours on a GPU."""
MOST_EPOCHS = 10
CPU_TEST_QUESTIONS = 400
MOST_NEW_TOKENS = 512
CHARACTERS_PER_TOKEN = 3
"""A cautious number for medical words in English; with fewer characters per token, a reply is cut sooner."""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What a first recipe for data has to know."""

    questions: Mapping[Split, int]
    train_groups: int  # The number of media groups to learn from: items that are shown together, with their questions.
    closed: int  # The number of questions with listed answers (options, yes or no).
    open: int  # The number of questions without listed answers.
    kinds: frozenset[MediaKind]
    most_items: int  # The largest number of items that are shown together; 0 where there are no media.
    longest_answer: int  # The largest number of characters of an answer to a question without listed answers.
    about_splits: str  # Where the numbers by split come from, in words.
    rejected: int = 0  # The number of rows that cannot be read.
    first_reject: str = ""  # The first of them, with its file, line and reason; "" where there is none.


def facts_of_table(table: SourceTable) -> DataFacts:
    """Returns the facts about raw files that were read but not yet prepared.

    Questions without a split get one from `prepare`, by patient; they are counted by its default shares.
    """
    if not table.questions:
        reasons = f"; the first reason: {table.rejects[0].reason}" if table.rejects else ""
        raise ValueError(f"no question can be read from these data ({len(table.rejects)} rows are rejected{reasons})")
    undrawn = [question for question in table.questions if question.split is None]
    shares = dict(zip(SPLITS, DEFAULT_FRACTIONS, strict=True))
    num = {
        split: sum(question.split == split for question in table.questions) + round(shares[split] * len(undrawn))
        for split in SPLITS
    }
    groups = len({question.media_id for question in table.questions if question.split == "train"})
    groups += round(DEFAULT_FRACTIONS.train * len({question.media_id for question in undrawn}))
    facts = _facts(num, groups, table.questions, table.media, about_splits=_about_splits(num, undrawn))
    first = str(table.rejects[0]) if table.rejects else ""
    return replace(facts, rejected=len(table.rejects), first_reject=first.rstrip("."))


def facts_of_prepared(prepared: Prepared) -> DataFacts:
    groups = {split: prepared.groups(split) for split in SPLITS}
    media = {group.media_id: group.media for found in groups.values() for group in found}
    questions = [question for found in groups.values() for group in found for question in group.questions]
    num = {split: prepared.num_questions(split) for split in SPLITS}
    return _facts(num, len(groups["train"]), questions, media, about_splits="as the data say")


def _about_splits(num: Mapping[Split, int], undrawn: Sequence[Question]) -> str:
    if undrawn:
        return "estimated; `prepare` draws the split"
    drawn = [split for split in SPLITS[1:] if not num[split]]
    if not drawn or not num["train"]:
        return "as the data say"
    return f"as the data say; `prepare` draws {' and '.join(drawn)} out of train"


def _facts(
    num: Mapping[Split, int],
    train_groups: int,
    questions: Sequence[Question],
    media: Mapping[str, tuple[MediaRef, ...]],
    *,
    about_splits: str,
) -> DataFacts:
    free = [question for question in questions if not question.options]
    return DataFacts(
        questions=num,
        train_groups=max(1, train_groups),
        closed=len(questions) - len(free),
        open=len(free),
        kinds=frozenset(ref.kind for items in media.values() for ref in items),
        most_items=max((len(items) for items in media.values()), default=0),
        longest_answer=max((len(question.answer) for question in free), default=0),
        about_splits=about_splits,
    )


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    value: str  # Its value as YAML; "" where lines that are further to the right follow.
    why: str  # The comment: what the field does, and why it has this value.
    depth: int = 1


def first_recipe(facts: DataFacts, *, benchmark: str, root: Path, on_gpu: bool, commands: Sequence[str]) -> str:
    """Returns a recipe as YAML with a header and a comment on every field."""
    blocks = {
        "model": _model(facts, on_gpu=on_gpu),
        "data": _data(benchmark, root, on_gpu=on_gpu),
        "train": _train(facts, on_gpu=on_gpu),
        "eval": _eval(facts, on_gpu=on_gpu),
        "log": [Field("wandb", "disabled", "auto sends curves to Weights & Biases where a key is set.")],
    }
    lines = _header(facts, commands, on_gpu=on_gpu)
    for name, fields in blocks.items():
        lines.append(f"{name}:")
        for field in fields:
            margin = "  " * field.depth
            lines += [f"{margin}# {field.why}", f"{margin}{field.key}: {field.value}".rstrip()]
    return "\n".join(lines) + "\n"


def _header(facts: DataFacts, commands: Sequence[str], *, on_gpu: bool) -> list[str]:
    num = facts.questions
    counts = f"train {num['train']:,}, val {num['val']:,}, test {num['test']:,} questions"
    first, *others = commands
    return [
        "# A first recipe for your own questions, written by `medtune init`. Change whatever you like.",
        "#",
        f"# Source:   {counts} ({facts.about_splits}); {facts.closed:,} with listed answers, {facts.open:,} free.",
        f"# Command:  {first}",
        *(f"#           {command}" for command in others),
        f"# Hardware: {'one GPU' if on_gpu else 'a CPU'}; `medtune validate` estimates the memory.",
        "# Expected: not yet run. The values are starting points that nobody has measured on these data.",
        "#",
        "# `medtune show --fields` explains every field that there is.",
    ]


def _model(facts: DataFacts, *, on_gpu: bool) -> list[Field]:
    name, why = _name(facts, on_gpu=on_gpu)
    fields = [
        Field("name", name, f"{why} Others: `medtune list models`."),
        Field("answer_format", "text", "An answer is the words of an option; letter asks for its letter."),
    ]
    if on_gpu:
        fields += [
            Field("dtype", "bfloat16", "The number type in which the weights are read: half the memory of float32."),
            Field("image_max_pixels", "589824", "Larger images are scaled down to so many pixels, to save memory."),
        ]
        if "volume" in facts.kinds:
            fields += [
                Field("volumes_as", "slices", "A volume is shown as axial slices in three windows."),
                Field("video_frames", "32", "The number of slices of a volume, and of frames of a video."),
            ]
        tuning = (
            "{mode: frozen}",
            "{mode: frozen}",
            "{mode: lora, lr: 1.0e-4, lora: {r: 16, alpha: 32, dropout: 0.05}}",
        )
    else:
        vision = "{mode: full, lr: 1.0e-3}" if name == "pocket_ct" else "{mode: frozen}"
        language = "{mode: lora, lr: 5.0e-4, lora: {r: 16, alpha: 32}}"
        tuning = (vision, "{mode: full, lr: 1.0e-3}", language)
    if name == "pocket_ct":
        fields += [
            Field("vision", "resnet3d", "The tower that reads the volume (`medtune list towers`)."),
            Field("projector", "spatial_pool", "What turns its features into words (`medtune list projectors`)."),
        ]
    parts = ("What sees", "What turns features into the language model's words", "What reads and answers")
    return [
        *fields,
        Field("tuning", "", "How each part learns: frozen, lora (small added matrices) or full; lr is the peak rate."),
        *(
            Field(part, how, f"{what}: {_learns(how)}.", depth=2)
            for part, how, what in zip(("vision", "projector", "language"), tuning, parts, strict=True)
        ),
    ]


def _learns(how: str) -> str:
    if "frozen" in how:
        return "stays as it was pretrained"
    return "learns small added matrices of rank r" if "lora" in how else "learns in full, as it is not pretrained"


def _name(facts: DataFacts, *, on_gpu: bool) -> tuple[str, str]:
    if on_gpu:
        return "qwen25vl_7b", "Qwen2.5-VL-7B, for images and videos; about 17 GB from the hub."
    if facts.kinds == {"volume"}:
        return "pocket_ct", "A small model that trains on a CPU and reads one CT volume a question."
    if "volume" in facts.kinds:
        kinds = " and ".join(f"{kind}s" for kind in sorted(facts.kinds))
        raise ValueError(
            f"the data hold {kinds}, and no model that trains on a CPU reads both. Prepare them apart, or call init on "
            "a machine with a GPU"
        )
    if "video" in facts.kinds:
        return "pocket_video", "A small model that trains on a CPU and sees eight frames of a video."
    return "pocket", "A small model that trains on a CPU."


def _data(benchmark: str, root: Path, *, on_gpu: bool) -> list[Field]:
    fields = [
        Field("benchmark", benchmark, "What words the questions and scores the answers (`medtune list benchmarks`)."),
        Field("root", _quoted(str(root)), "The prepared folder; an absolute path works from any folder."),
    ]
    return [*fields, Field("workers", "4", "The number of processes that decode images.")] if on_gpu else fields


def _train(facts: DataFacts, *, on_gpu: bool) -> list[Field]:
    groups = facts.train_groups
    epochs = min(MOST_EPOCHS, max(1, round((GPU_GROUPS if on_gpu else CPU_GROUPS) / groups)))
    batch = 16 if on_gpu else 8
    shown = f"about {groups:,} media groups, each shown {epochs} time{'' if epochs == 1 else 's'}"
    fields = [
        Field("epochs", str(epochs), f"The number of passes over the training questions: {shown}."),
        Field("batch_size", str(batch), "Media groups (an image with all its questions) for each step of training."),
    ]
    if on_gpu:
        return [
            *fields,
            Field("micro_batch_size", "1", "Media groups in memory at a time; raise it where memory is left."),
            Field("weight_decay", "0.0", "LoRA's few weights are not pulled towards zero."),
            Field("warmup_ratio", "0.03", "The share of the steps in which the learning rate rises."),
            Field("precision", "bf16-mixed", "Computes in bfloat16; what learns stays float32."),
            Field("gradient_checkpointing", "true", "Takes less memory and about a third more time."),
        ]
    return [*fields, Field("micro_batch_size", str(batch), "Media groups in memory at a time.")]


def _eval(facts: DataFacts, *, on_gpu: bool) -> list[Field]:
    epochs, batch = (int(field.value) for field in _train(facts, on_gpu=on_gpu)[:2])
    steps = max(1, epochs * facts.train_groups // batch)
    readings, why = _readings(facts)
    conditions = "[image, text_only]" if facts.kinds else "[image]"
    fields = [
        Field("readings", readings, why),
        Field("conditions", conditions, "text_only asks again without the image: what do the questions give away?"),
        Field("every_steps", str(max(1, steps // 4)), f"A validation after so many of the {steps:,} steps."),
        Field("val_questions", "100", "The number of questions in each validation."),
        Field("max_new_tokens", str(_new_tokens(facts)), "The longest reply, in tokens; longer ones are cut."),
    ]
    if not on_gpu and facts.questions["test"] > CPU_TEST_QUESTIONS:
        why = "Tests on so many questions, drawn by chance, because a CPU is slow; leave it out for all of them."
        fields.append(Field("questions", str(CPU_TEST_QUESTIONS), why))
    return fields


def _readings(facts: DataFacts) -> tuple[str, str]:
    if not facts.closed:
        return "[generation]", "Free answers are generated."
    return "[likelihood, generation]", "The most likely option, which is primary, and a generated reply."


def _new_tokens(facts: DataFacts) -> int:
    needed = 16 + facts.longest_answer // CHARACTERS_PER_TOKEN
    return min(MOST_NEW_TOKENS, -(-needed // 16) * 16)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
