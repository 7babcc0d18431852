"""Tests of the published protocol, and of how often a served model is asked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import open_prepared
from medtune.eval.asking.plan import plan_visits
from medtune.eval.results.schema import UsedProtocol
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.recipe.check import as_published, protocol_facts
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe


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
            temperature=0.7, repeats=1, condition_repeats={"with_anatomy": 5}, max_new_tokens=800
        )
        assert facts.published is not None
        assert facts.published.temperature == 0.7


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
    assert facts.used == UsedProtocol(temperature=1.0, repeats=1, condition_repeats={}, max_new_tokens=own)
    assert facts.published is not None
    assert facts.published.max_new_tokens is None


@pytest.mark.parametrize("served", [False, True])
def test_ctlesionvqa_is_asked_five_times_at_a_temperature_that_the_recipe_says(*, served: bool) -> None:
    field = "model.endpoint.temperature" if served else "eval.temperature"
    with pytest.raises(ValueError, match=rf"asked 5 times and do not say at which temperature.* set {field} above 0"):
        as_published(_recipe(served=served), find_benchmark("ctlesionvqa"))
    drawn = _recipe(served=served)
    if drawn.model.endpoint:
        endpoint = replace(drawn.model.endpoint, temperature=0.4)
        drawn = replace(drawn, model=replace(drawn.model, endpoint=endpoint))
    else:
        drawn = replace(drawn, eval=replace(drawn.eval, temperature=0.4))
    used = protocol_facts(as_published(drawn, find_benchmark("ctlesionvqa")), find_benchmark("ctlesionvqa")).used
    assert (used.temperature, used.repeats) == (0.4, 5)
    assert used.max_new_tokens == drawn.eval.max_new_tokens


def test_the_protocol_of_ctlesionvqa_is_that_of_its_paper(shared_real: Path) -> None:
    printed = json.loads((shared_real.parent / "published" / "ctlesionvqa_text.json").read_text("utf-8"))
    (repeats,) = [row["value"] for row in printed["rows"] if row["key"] == "repeats"]
    protocol = find_benchmark("ctlesionvqa").protocol
    assert protocol is not None
    assert protocol.repeats == repeats


def test_the_protocol_of_u2_bench_is_that_of_its_paper(shared_real: Path) -> None:
    published = shared_real.parent / "published"
    ablation = json.loads((published / "u2bench_table3.json").read_text("utf-8"))["quoted"]
    rows = json.loads((published / "u2bench_text.json").read_text("utf-8"))["rows"]
    protocol = find_benchmark("u2_bench").protocol
    assert protocol is not None
    assert protocol.condition_repeats == {"with_anatomy": ablation["forward_passes_per_pair"]}
    assert [row["value"] for row in rows if row["key"] == "temperature"] == [protocol.temperature]


def test_a_recipe_may_say_its_own_repeats_of_a_condition() -> None:
    own = ["eval.temperature=1", "eval.condition_repeats={text_only: 3}", "eval.repeats=2"]
    recipe = read_recipe("nano_busi_lora", own)
    assert recipe.eval.draws(("image", "text_only")) == {"image": 3, "text_only": 3}
    assert recipe.eval.draws(("image", "other_image")) == {"image": 2, "other_image": 2}


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="no protocol of BUSI breast ultrasound is known"):
        as_published(_recipe(served=False), find_benchmark("busi"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["eval.repeats=5"], r"eval\.repeats is 5; greedy answers do not differ. Set eval\.temperature above 0"),
        (
            ["eval.condition_repeats={text_only: 5}"],
            r"eval\.condition_repeats is \{'text_only': 5\}; greedy answers do not differ",
        ),
        (
            ["eval.temperature=1", "eval.condition_repeats={image: 5}"],
            r"condition_repeats\.image: .* set eval\.repeats",
        ),
        (["eval.temperature=1", "eval.condition_repeats={text_only: 0}"], r"condition_repeats\.text_only is 0"),
        (["eval.temperature=-1"], r"eval\.temperature is -1\.0; it must be at least 0"),
        (
            ["eval.temperature=1", "eval.readings=[likelihood]"],
            "a log-likelihood is computed, not drawn; add generation",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", overrides)


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
