"""Tests that a recipe which is accepted can be scored to its end, and that one which could not is refused before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.m3d_vqa import judge_task as m3d_judge_task
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Condition, Split
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.plan import plan_visits
from medtune.eval.results.schema import UsedProtocol
from medtune.eval.scoring.score import score_phase
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.endpoint.settings import Endpoint
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.experiment.open_data import OpenedData, check_scored, open_data
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.check import as_published, primary_parser, protocol_facts, set_by_protocol
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe, Stage
from tests.eval.answerers import Oracle
from tests.examples import write_example
from tests.models.twins import layout, shown
from tests.own_questions import KINDS, Kind, prepare_own
from tests.trainer.conftest import json_of

FREE: tuple[Kind, ...] = ("short", "report")
Splits = Mapping[Split, Sequence[Kind]]
DATA: Mapping[str, Splits] = {
    "closed": dict.fromkeys(("train", "val", "test"), ("choice", "yes_no")),
    "free": dict.fromkeys(("train", "val", "test"), FREE),
    "reports": dict.fromkeys(("train", "val", "test"), ("report",)),
    "numbers": dict.fromkeys(("train", "val", "test"), ("number",)),
    "all kinds": dict.fromkeys(("train", "val", "test"), KINDS),
    "closed tests, free val": {"train": FREE, "val": FREE, "test": KINDS},
    "free tests, closed val": {"train": KINDS, "val": ("choice",), "test": FREE},
}
READINGS = (None, "[likelihood]", "[generation]", "[likelihood,generation]", "[generation,likelihood]")
PARSERS = (None, "reply", "verbatim", "likelihood", "likelihood_per_token")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        return {
            name: prepare_own(tmp_path_factory.mktemp("own"), kinds, patients=2).root for name, kinds in DATA.items()
        }


def opened(root: Path, *settings: str, training: bool = True) -> OpenedData:
    recipe = read_recipe("nano_busi_lora", ["data.benchmark=vqa", f"data.root={root}", *settings])
    return open_data(recipe, training=training)


PLAIN = ("all kinds", "free")


@pytest.mark.parametrize(
    "name", [name if name in PLAIN else pytest.param(name, marks=pytest.mark.slow) for name in DATA]
)
def test_what_is_accepted_is_scored_to_its_end(folders: Mapping[str, Path], tmp_path: Path, name: str) -> None:
    accepted = 0
    for number, (readings, parser) in enumerate(product(READINGS, PARSERS)):
        settings = [f"eval.readings={readings}"] * (readings is not None)
        settings += [f"eval.parser={parser}"] * (parser is not None)
        try:
            data = opened(folders[name], *settings)
        except ValueError:
            continue
        accepted += 1
        recipe, prepared, benchmark, _ = data
        for split in ("val", "test"):
            groups = groups_of(prepared, split, questions=None, seed=0)
            out = tmp_path / f"{number}-{split}"
            said = ask_questions(
                Oracle(), groups, benchmark, answer_format="text", out_dir=out, readings=recipe.eval.known_readings
            )
            asked = [question for group in groups for question in group.questions]
            scores = score_phase(asked, said, benchmark, parser=primary_parser(recipe, benchmark))
            assert scores.overall.value == pytest.approx(1), (name, settings, split)
            assert scores.overall.unanswered == 0, (name, settings, split)
    assert accepted >= (0 if "," in name else 3)


@pytest.mark.parametrize(("name", "readings"), [
    *((name, ("likelihood", "generation")) for name in ("closed", "all kinds")),
    *((name, ("generation",)) for name in ("free", "reports", "numbers")),
])  # fmt: skip
def test_readings_follow_the_questions_where_none_are_named(
    folders: Mapping[str, Path], name: str, readings: tuple[str, ...]
) -> None:
    assert opened(folders[name]).recipe.eval.readings == readings


def test_named_readings_stay_and_a_likelihood_of_nothing_is_left_out(folders: Mapping[str, Path]) -> None:
    assert opened(folders["closed"], "eval.readings=[generation]").recipe.eval.readings == ("generation",)
    assert opened(folders["free"], "eval.readings=[likelihood,generation]").recipe.eval.readings == ("generation",)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("free", ["eval.readings=[likelihood]"], "has options whose likelihood could be read"),
        ("free", ["eval.parser=likelihood"], "add likelihood to the readings"),
        ("closed", ["eval.readings=[generation]", "eval.parser=likelihood"], "add likelihood to the readings"),
        ("closed", ["eval.readings=[likelihood]", "eval.parser=reply"], "add generation to the readings"),
        ("closed", ["eval.parser=robust"], "eval.parser is 'robust'; there are: reply, verbatim"),
        ("closed tests, free val", [], "of the split 'val' is one that the primary metric 'closed_accuracy' is about"),
        ("free tests, closed val", [], "of the split 'val' is one that the primary metric 'exact_match' is about"),
    ],
)
def test_what_could_not_be_scored_is_refused(
    folders: Mapping[str, Path], name: str, settings: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        opened(folders[name], *settings)


def test_a_drawn_validation_is_checked_as_it_is_drawn(tmp_path: Path) -> None:
    kinds: Splits = dict.fromkeys(("train", "val", "test"), ("yes_no", "report"))
    prepared = prepare_own(tmp_path, kinds, one_each=True)
    accepted = set[bool]()
    for seed in range(6):
        settings = ("eval.val_questions=1", f"train.seed={seed}")
        (group,) = groups_of(prepared, "val", questions=1, seed=seed)
        is_closed = bool(group.questions[0].options)
        if is_closed:
            opened(prepared.root, *settings)
        else:
            with pytest.raises(ValueError, match=r"that eval.val_questions draws is one .* Raise that number"):
                opened(prepared.root, *settings)
            opened(prepared.root, *settings, training=False)
        accepted.add(is_closed)
    assert accepted == {True, False}


def test_a_limit_of_a_run_is_checked_too(tmp_path: Path) -> None:
    kinds: Splits = dict.fromkeys(("train", "val", "test"), ("yes_no", "report"))
    prepared = prepare_own(tmp_path, kinds, one_each=True)
    recipe = read_recipe("nano_busi_lora", ["data.benchmark=vqa", f"data.root={prepared.root}"])
    seeds = [
        seed for seed in range(6) if not groups_of(prepared, "test", questions=1, seed=seed)[0].questions[0].options
    ]
    limited = replace(recipe, train=replace(recipe.train, seed=seeds[0]))
    with pytest.raises(ValueError, match="the 1 questions of the split 'test' that --limit draws"):
        open_data(limited, training=False, limit=1)


def test_a_training_whose_validation_waits_for_a_judge_is_refused(folders: Mapping[str, Path]) -> None:
    data = opened(folders["free"])
    judged = replace(data.benchmark, judging=replace(m3d_judge_task(), covers=lambda question: True))
    with pytest.raises(ValueError, match="needs a judge, who has no part in validations"):
        check_scored(data.recipe, data.prepared, judged, parser="reply", training=True, limit=None)
    check_scored(data.recipe, data.prepared, judged, parser="reply", training=False, limit=None)


class Asked(NamedTuple):
    """A scan with the questions that are asked about it in one pass."""

    scan: int
    layouts: Sequence[Layout]


PUBLISHED = {
    "m3d_llama2_ctlesionvqa": [32],
    "m3d_phi3_ctlesionvqa": [32],
    "merlin_ctlesionvqa": [32],
    "radfm_ctlesionvqa": [32],
    "ct_chat_ctlesionvqa": [128],
    "m3d_llama2_ctlesionvqa_public": [64, 32],
    "m3d_phi3_ctlesionvqa_public": [64, 32],
    "merlin_ctlesionvqa_public": [32],
    "radfm_ctlesionvqa_public": [32],
    "ct_chat_ctlesionvqa_public": [48, 144],
}
"""Questions of an optimizer step in each stage, by the paper or the public code that the recipe's header names."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_step_learns_the_questions_of_the_source_and_those_of_a_scan_share_it(name: str) -> None:
    recipe = read_recipe(name, [])
    shared = recipe.train.group_questions
    assert shared is not None
    assert shared > 1
    assert [stage.batch_size * shared for stage in recipe.stages] == PUBLISHED[name]
    for stage in recipe.stages:
        assert stage.batch_size % (stage.micro_batch_size * recipe.train.devices) == 0, "a device would idle"


def _learning(name: str, stage: Stage) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, stage.tuning, seed=0)
    torch.manual_seed(0)
    # Adapters begin at zero, where most gradients are zero and agree with anything.
    for each, parameter in assembled.model.named_parameters():
        if ".lora_B." in each:
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.eval()
    return assembled


def _gradients(assembled: Assembled, name: str, passes: Sequence[Sequence[Asked]]) -> dict[str, Tensor]:
    """Returns the loss and the gradients of the step of these passes, each of them some scans with questions."""
    model = assembled.model
    model.zero_grad()
    targets = sum(one.num_targets for each in passes for asked in each for one in asked.layouts)
    losses = []
    for each in passes:
        trees = [[Shown(grow(asked.layouts, range(len(asked.layouts))), number)] for number, asked in enumerate(each)]
        encoded = model.encode(shown(assembled, name, *(asked.scan for asked in each)))
        loss = -model(pack(trees, pad_id=assembled.template.pad_id), encoded).logprobs_T.sum() / targets
        loss.backward()
        losses.append(loss.detach())
    learnt = {each: p.grad.clone() for each, p in model.named_parameters() if p.grad is not None}
    return {"loss": torch.stack(losses).sum(), **learnt}


def _apart(mine: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference relative to the largest gradient of a parameter."""
    assert mine.keys() == other.keys()
    return max(float((mine[n] - other[n]).abs().max() / other[n].abs().max().clamp(min=1e-4)) for n in mine)


@pytest.mark.parametrize("name", ["m3d_llama2", "m3d_phi3", "merlin", "radfm", "ct_chat"])
def test_a_step_over_shared_scans_is_the_step_over_its_questions_one_by_one(name: str) -> None:
    recipe = read_recipe(f"{name}_ctlesionvqa", [])
    stage, shared, twin = recipe.stages[0], recipe.train.group_questions or 0, f"nano_{name}"
    assembled = _learning(twin, stage)
    answers = ("head", "arm", "leg", "eye")[:shared]
    scans = [
        Asked(scan, [layout(assembled, twin, answer, f"Which part {scan} {answer}?") for answer in answers])
        for scan in range(2)
    ]
    together = _gradients(assembled, twin, [scans] if stage.micro_batch_size > 1 else [[each] for each in scans])
    alone = [[Asked(each.scan, [one])] for each in scans for one in each.layouts]
    assert _apart(together, _gradients(assembled, twin, alone)) < 2e-4
    swapped = [[Asked(1 - each.scan, [one])] for each in scans for one in each.layouts]
    assert _apart(together, _gradients(assembled, twin, swapped)) > 1e-2


def _recipe(*, served: bool) -> Recipe:
    recipe = read_recipe("nano_busi_lora", ["eval.protocol=published"])
    endpoint = Endpoint(base_url="http://127.0.0.1:1/v1", model="m") if served else None
    return replace(recipe, model=replace(recipe.model, endpoint=endpoint))


def test_served_and_local_models_take_all_of_it() -> None:
    u2 = find_benchmark("u2_bench")
    served, local = (as_published(_recipe(served=served), u2) for served in (True, False))
    assert served.model.endpoint is not None
    assert (served.model.endpoint.temperature, served.eval.temperature) == (0.7, 0.0)
    assert (local.model.endpoint, local.eval.temperature) == (None, 0.7)
    for recipe in (served, local):
        assert (recipe.eval.max_new_tokens, recipe.eval.repeats) == (800, 1)
        facts = protocol_facts(recipe, u2)
        assert facts.used == UsedProtocol(
            temperature=0.7,
            repeats=1,
            condition_repeats={"with_anatomy": 5, "without_anatomy": 5},
            max_new_tokens=800,
            thinking="as the server decides" if recipe is served else "off",
        )
        assert facts.published is not None
        assert facts.published.temperature == 0.7


def test_a_user_is_told_what_the_published_protocol_replaces() -> None:
    u2, local, served = find_benchmark("u2_bench"), _recipe(served=False), _recipe(served=True)
    said = "eval.protocol: published replaces temperature 0.0 by 0.7, max_new_tokens 16 by 800"
    assert local.eval.max_new_tokens == 16
    assert set_by_protocol(local, as_published(local, u2)) == said
    assert set_by_protocol(served, as_published(served, u2)) == (
        f"eval.protocol: published replaces max_new_tokens 16 by 800, "
        f"temperature {served.model.endpoint and served.model.endpoint.temperature} by 0.7"
    )
    own = replace(local, eval=replace(local.eval, protocol="recipe"))
    assert not set_by_protocol(own, as_published(own, u2))


def test_the_anatomy_ablation_of_u2_bench_takes_five_passes_of_both_prompts() -> None:
    evaluation = as_published(_recipe(served=False), find_benchmark("u2_bench")).eval
    ablation = evaluation.draws(("image", "with_anatomy", "text_only"))
    assert ablation == {"image": 5, "with_anatomy": 5, "text_only": 1}
    assert evaluation.draws(("image", "text_only")) == {"image": 1, "text_only": 1}


@pytest.mark.parametrize("served", [False, True])
def test_rexsonovqa_is_asked_once_at_temperature_1_and_states_no_length(*, served: bool) -> None:
    recipe = as_published(_recipe(served=served), find_benchmark("rexsonovqa"))
    facts = protocol_facts(recipe, find_benchmark("rexsonovqa"))
    own = read_recipe("nano_busi_lora").eval.max_new_tokens
    assert facts.used == UsedProtocol(
        temperature=1.0,
        repeats=1,
        condition_repeats={},
        max_new_tokens=own,
        thinking="as the server decides" if served else "off",
    )
    assert facts.published is not None
    assert facts.published.max_new_tokens is None


@pytest.mark.parametrize("served", [False, True])
def test_ctlesionvqa_is_asked_five_times_at_a_temperature_that_the_recipe_says(*, served: bool) -> None:
    greedy = as_published(_recipe(served=served), find_benchmark("ctlesionvqa"))
    assert greedy.eval.repeats == 1, "five greedy answers would be one answer five times"
    drawn = _recipe(served=served)
    if drawn.model.endpoint:
        endpoint = replace(drawn.model.endpoint, temperature=0.4)
        drawn = replace(drawn, model=replace(drawn.model, endpoint=endpoint))
    else:
        drawn = replace(drawn, eval=replace(drawn.eval, temperature=0.4))
    used = protocol_facts(as_published(drawn, find_benchmark("ctlesionvqa")), find_benchmark("ctlesionvqa")).used
    assert (used.temperature, used.repeats) == (0.4, 5)
    assert used.max_new_tokens == drawn.eval.max_new_tokens


def test_the_protocol_of_ctlesionvqa_is_that_of_its_paper(shared_published: Path) -> None:
    printed = json_of(shared_published / "ctlesionvqa_text.json")
    (repeats,) = [row["value"] for row in printed["rows"] if row["key"] == "repeats"]
    protocol = find_benchmark("ctlesionvqa").protocol
    assert protocol is not None
    assert protocol.repeats == repeats


def test_the_protocol_of_u2_bench_is_that_of_its_paper(shared_published: Path) -> None:
    ablation = json_of(shared_published / "u2bench_table3.json")["quoted"]
    rows = json_of(shared_published / "u2bench_text.json")["rows"]
    protocol = find_benchmark("u2_bench").protocol
    assert protocol is not None
    passes = ablation["forward_passes_per_pair"]
    assert protocol.condition_repeats == {"with_anatomy": passes, "without_anatomy": passes}
    assert [row["value"] for row in rows if row["key"] == "temperature"] == [protocol.temperature]


def test_a_recipe_may_say_its_own_repeats_of_a_condition() -> None:
    own = ["eval.temperature=1", "eval.condition_repeats={text_only: 3}", "eval.repeats=2"]
    recipe = read_recipe("nano_busi_lora", own)
    assert recipe.eval.draws(("image", "text_only")) == {"image": 3, "text_only": 3}
    assert recipe.eval.draws(("image", "other_image")) == {"image": 2, "other_image": 2}
    paired = read_recipe("nano_busi_lora", ["eval.temperature=1", "eval.condition_repeats={with_anatomy: 5}"])
    conditions: tuple[Condition, ...] = ("image", "with_anatomy", "without_anatomy")
    assert paired.eval.draws(conditions) == dict.fromkeys(conditions, 5), "a majority is paired with a majority"


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="no protocol of BUSI breast ultrasound is known"):
        as_published(_recipe(served=False), find_benchmark("busi"))


def test_replies_are_asked_for_as_often_as_said_and_likelihoods_once(prepared_tiny: Path) -> None:
    groups = open_prepared(prepared_tiny).groups("test")
    plan = plan_visits(
        groups, find_benchmark("busi"), answer_format="text", conditions=("image", "text_only"), repeats={"image": 3}
    )
    every = [request for visits in plan for visit in visits for request in visit.requests]
    asked = [request for request in every if request.condition == "image"]
    assert {request.repeat for request in every if request.condition == "text_only"} == {0}
    number = sum(len(group.questions) for group in groups)
    assert sum(request.reading == "likelihood" for request in asked) == number
    assert sorted({r.repeat for r in asked if r.reading == "generation"}) == [0, 1, 2]
    assert sum(request.reading == "generation" for request in asked) == 3 * number


def test_a_composite_is_primary_only_where_all_its_parts_are_asked(tmp_path: Path) -> None:
    write_example("u2_bench", tmp_path / "raw")
    prepared = prepare(find_source("u2_bench"), benchmark="u2_bench", root=tmp_path / "raw", out=tmp_path / "prepared")
    recipe = read_recipe("nano_busi_lora", ["data.benchmark=u2_bench", f"data.root={prepared.root}"])
    assert open_data(recipe, training=False).benchmark.primary == "u2_score"
    assert open_data(recipe, training=False, limit=2).benchmark.primary != "u2_score"
