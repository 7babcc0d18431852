"""The published protocol, and how often a served model is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.data.prepared import open_prepared
from medtune.eval.benchmark import benchmark
from medtune.eval.evaluate import plan_visits
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.as_published import as_published, protocol_facts
from medtune.trainer.recipe import Recipe
from medtune.trainer.recipe_file import read_recipe


def _recipe(*, served: bool) -> Recipe:
    recipe = read_recipe("nano_busi_lora", ["eval.protocol=published"])
    endpoint = Endpoint(base_url="http://127.0.0.1:1/v1", model="m") if served else None
    return replace(recipe, model=replace(recipe.model, endpoint=endpoint))


def test_served_and_local_models_take_all_of_it() -> None:
    u2 = benchmark("u2_bench")
    served, local = (as_published(_recipe(served=served), u2) for served in (True, False))
    assert served.model.endpoint is not None
    assert (served.model.endpoint.temperature, served.eval.temperature) == (0.7, 0.0)
    assert (local.model.endpoint, local.eval.temperature) == (None, 0.7)
    for recipe in (served, local):
        assert (recipe.eval.max_new_tokens, recipe.eval.repeats) == (800, 1)
        facts = protocol_facts(recipe, u2)
        assert facts["used"] == {"temperature": 0.7, "repeats": 1, "max_new_tokens": 800}
        assert isinstance(facts["published"], dict)
        assert facts["published"]["temperature"] == 0.7


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="no protocol of BUSI breast ultrasound is known"):
        as_published(_recipe(served=False), benchmark("busi"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["eval.repeats=5"], r"eval\.repeats is 5; greedy answers do not differ. Set eval\.temperature above 0"),
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
    plan = plan_visits(groups, benchmark("busi"), answer_format="text", conditions=("image",), repeats=3)
    asked = [request for visits in plan for visit in visits for request in visit.requests]
    number = sum(len(group.questions) for group in groups)
    assert sum(request.reading == "likelihood" for request in asked) == number
    assert sorted({r.repeat for r in asked if r.reading == "generation"}) == [0, 1, 2]
    assert sum(request.reading == "generation" for request in asked) == 3 * number
