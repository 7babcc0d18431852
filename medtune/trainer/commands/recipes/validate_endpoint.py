"""`medtune validate` of a model behind an endpoint: what would be sent, what it may cost, and what is missing."""

from __future__ import annotations

import os

from medtune.data.prepared.folder import Prepared
from medtune.eval.asking.ask import plan_visits
from medtune.eval.benchmark import Benchmark
from medtune.models.endpoint.estimate import total_tokens
from medtune.models.endpoint.messages import cost_text
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.recipe.published_protocol import as_published
from medtune.trainer.recipe.schema import Recipe


def show_served(recipe: Recipe, endpoint: Endpoint, prepared: Prepared | None, benchmark: Benchmark) -> str | None:
    """Prints what `medtune eval` would ask the server, without asking it; returns what is missing, None for nothing.

    Args:
        recipe: Of the evaluation.
        endpoint: Its model.
        prepared: None where the data are missing.
        benchmark: Whose prompts are asked.
    """
    print(f"model      {endpoint.model}, behind {endpoint.base_url}; it can be evaluated, not trained")
    print("readings   generation; log-likelihood n/a")
    if prepared is not None:
        recipe = as_published(recipe, benchmark)
        plan = plan_visits(
            prepared.groups(recipe.eval.split),
            benchmark,
            answer_format=recipe.model.answer_format,
            readings=recipe.eval.readings,
            conditions=recipe.eval.conditions,
            seed=recipe.train.seed,
            repeats=recipe.eval.draws(recipe.eval.conditions),
        )
        asked = [(visit.shown, request) for visits in plan for visit in visits for request in visit.requests]
        tokens = total_tokens(endpoint, asked, max_new_tokens=recipe.eval.max_new_tokens)
        print(f"cost       {cost_text(endpoint, tokens, number=len(asked))}")
        print(f"privacy    the images and questions of the split {recipe.eval.split} are sent to that server")
    if endpoint.key_env is not None and not os.environ.get(endpoint.key_env):
        return f"key: the environment variable {endpoint.key_env} is not set; export it before `medtune eval`"
    return None
