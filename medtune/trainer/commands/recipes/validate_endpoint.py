"""The part of `medtune validate` for a model behind an endpoint: its requests, their cost, and what is missing."""

import os

from medtune.eval.asking.plan import plan_visits
from medtune.models.endpoint.messages import cost_text
from medtune.models.endpoint.replies import num_requests, total_tokens
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.experiment.open_data import OpenedData


def show_served(endpoint: Endpoint, data: OpenedData | None) -> str | None:
    """Prints the number and cost of the requests of `medtune eval`, without sending any.

    Returns a message that says what is missing, or None if nothing is.

    Args:
        endpoint: The served model, as the recipe names it.
        data: The opened data of the recipe; None if they are missing.
    """
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
