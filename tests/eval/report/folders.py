"""Makes run folders like those of a run from real questions and made-up answers, without a model and without torch."""

import functools
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.manifest import MEDIA, write_manifest
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.tables import data_hash, map_table, read_media, write_tables
from medtune.data.types import Prediction, PredictionKey, Question, Split
from medtune.eval.comparing.gain import gain_between
from medtune.eval.data_label import DataLabel
from medtune.eval.predictions.files import format_line
from medtune.eval.results.build import results_file, scores_file
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import parse_all, write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.answers import likelihood, wrong
from tests.eval.run_facts import run_facts

BUSI = find_benchmark("busi")
LABEL = DataLabel(provenance="synthetic", prompts="ours", stands_for_patient="patient")
SCRIPT = "<script>document.title='owned'</script>"
IMAGE = '<img src="http://example.invalid/x.png" onerror="document.title=\'owned\'">'
ARABIC = "ما هو التشخيص؟"
HEBREW = "גידול שפיר"


def hostile(prepared: Prepared) -> None:
    """Rewrites a prepared folder so that its texts contain markup and right-to-left writing."""

    def spoilt(question: Question, number: int) -> Question:
        text = f"{SCRIPT} {question.text}" if number % 2 else f"{ARABIC} {question.text}"
        worse = {
            option: f"{IMAGE} {option}" if place else f"{HEBREW} {option}"
            for place, option in enumerate(question.options)
        }
        facets = {**question.facets, "task": f"</select>{SCRIPT}"} if number % 3 == 0 else question.facets
        return replace(question, text=text, options=tuple(worse.values()), answer=worse[question.answer], facets=facets)

    asked = [question for split in ("train", "val", "test") for question in prepared.questions(split)]
    asked = [spoilt(question, number) for number, question in enumerate(asked)]
    media = list(read_media(map_table(prepared.root / MEDIA)))
    write_tables(prepared.root, asked, media)
    manifest = replace(prepared.manifest, data_hash=data_hash(asked, media))
    write_manifest(prepared.root, manifest)


def generation(question: Question, text: str) -> Prediction:
    return Prediction(
        key=PredictionKey(question.id, "image", "generation", 0),
        options_shown=question.options,
        text=text,
        finish_reason="stop",
    )


def before_and_after(asked: Sequence[Question]) -> tuple[list[str], list[str]]:
    """Returns the answers of two phases: of every six questions four are fixed, one is broken and one stays wrong."""
    before, after = [], []
    for number, question in enumerate(asked):
        before.append(question.answer if number % 6 == 4 else wrong(question))
        after.append(question.answer if number % 6 < 4 else wrong(question))
    return before, after


def write_stage(
    run: Path, name: str, asked: Sequence[Question], train: Sequence[Question], said: Sequence[str]
) -> PhaseScores:
    answers = [
        prediction
        for question, one in zip(asked, said, strict=True)
        for prediction in (likelihood(question, one), generation(question, f"{SCRIPT} {ARABIC} {one}"))
    ]
    folder = run / name
    folder.mkdir(parents=True)
    (folder / "predictions.jsonl").write_bytes(b"".join(map(format_line, answers)))
    write_parsed(folder / "parsed.jsonl", answers, parse_all(asked, answers, BUSI), BUSI)
    scores = score_phase(asked, answers, BUSI, train=train)
    write_document(folder / "scores.json", scores_file(scores, LABEL))
    return scores


def write_run(run: Path, data: Path, *, phases: Sequence[str] = ("zero_shot", "final"), split: Split = "test") -> Path:
    """Writes the folder of a run over all questions of a split."""
    for name, content in _files_of_run(data, open_prepared(data).data_hash, tuple(phases), split).items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    return run


@functools.cache
def _files_of_run(data: Path, data_hash: str, phases: tuple[str, ...], split: Split) -> Mapping[str, bytes]:
    """Returns the content of each file of a run; it is computed once, because scoring takes two seconds."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        _compute_run(run, data, phases=phases, split=split)
        return {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*") if file.is_file()}


def _compute_run(run: Path, data: Path, *, phases: Sequence[str], split: Split) -> None:
    prepared = open_prepared(data)
    asked, train = prepared.questions(split), prepared.questions("train")
    said = dict(zip(("zero_shot", "final"), before_and_after(asked), strict=True))
    scores = {name: write_stage(run, name, asked, train, said[name]) for name in phases}
    gain = gain_between(scores["zero_shot"], scores["final"], BUSI) if len(scores) == 2 else None
    facts = run_facts(LABEL, data_hash=prepared.data_hash)
    results = results_file(scores, gain, BUSI, benchmark_name="busi", model="nano_pocket", facts=facts)
    write_document(run / "results.json", results)
    recipe = {
        "data": {"benchmark": "busi", "root": str(data)},
        "train": {"seed": 7, "max_steps": 4, "batch_size": 2},
        "eval": {"split": split},
    }
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    environment = {
        "command": ["medtune", "run", "nano_busi_lora", "--set", f"log.project={SCRIPT}"],
        "medtune": "0.1.0",
        "git_commit": None,
        "python": "3.11.7",
        "platform": "Linux",
        "devices": ["cpu"],
        "packages": {"torch": "2.15.0", "deepspeed": None},
    }
    about = {"recipe": facts.recipe, "data_hash": facts.data_hash, **LABEL.facts()}
    (run / "environment.json").write_text(json.dumps({**environment, **about}))
    weights = {"projector": "random (seed 7); untrained at zero-shot", "language": "Small, 4-bit weights (Q4_1)"}
    (run / "weights.json").write_text(json.dumps(weights))
    lines = ["step,phase,name,value", *(f"{step},train,loss,{2 / step}" for step in range(1, 5))]
    for step, values in {2: (0.4, 0.2, 0.6), 4: (0.6, 0.3, 0.8)}.items():
        names = ("accuracy", "accuracy_ci95_low", "accuracy_ci95_high")
        lines += [f"{step},val,{name},{value}" for name, value in zip(names, values, strict=True)]
    (run / "metrics.csv").write_text("\n".join(lines) + "\n")


def write_audit(run: Path) -> None:
    """Writes an audit.json with one row of each kind."""
    plain = {"phase": "no model", "metric": "accuracy", "value": 0.3, "n": 9, "note": "by expectation"}
    rows = [
        {**plain, "name": "random", "title": "guessing", "ci95": None, "gap": None, "flag": None},
        {
            **plain,
            "name": "blank_image",
            "title": f"a blank image {SCRIPT}",
            "phase": "final",
            "value": 0.35,
            "ci95": [0.2, 0.9],
            "gap": {"value": -0.05, "ci95": [-0.2, 0.1]},
            "flag": "the model is not surely better than this",
        },
    ]
    collapse = {
        "answer": HEBREW,
        "share": 0.8,
        "truth_share": 0.3,
        "excess_ci95": [0.2, 0.7],
        "n": 9,
        "flag": "one answer to most questions",
    }
    content = {"version": 1, "rows": rows, "collapse": {"diagnosis": collapse}}
    (run / "audit.json").write_text(json.dumps(content))


def change_json(path: Path, *keys: str, value: object) -> None:
    """Sets one field of a JSON file."""
    content = json.loads(path.read_text())
    target = content
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    path.write_text(json.dumps(content))
