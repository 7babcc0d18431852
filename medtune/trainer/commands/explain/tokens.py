"""Shows a question as the tokens that a run's model reads and learns, where its tokenizer is on this machine."""

from medtune.data.types import MediaGroup, Prompt, Question
from medtune.trainer.recipe.schema import FOREIGN, Recipe


def tokens_text(recipe: Recipe, group: MediaGroup, question: Question, prompt: Prompt) -> str:
    """Returns the row as `medtune validate` shows one, or why it cannot be shown."""
    if recipe.model.endpoint is not None or recipe.model.name == FOREIGN:
        return "not shown: the model was asked elsewhere, by words and pictures"
    try:
        return _row(recipe, group, question, prompt)
    except (ValueError, OSError) as error:
        return f"not shown: {error}"


def _row(recipe: Recipe, group: MediaGroup, question: Question, prompt: Prompt) -> str:
    # These imports load torch and transformers, which the rest of the command does not need.
    from medtune.models.assemble import zoo_entry
    from medtune.models.sharding.unread import leaving_weights_unread
    from medtune.models.weights.export import assemble_model, check_loading
    from medtune.trainer.commands.validate import labelled_text
    from medtune.trainer.experiment.open_data import missing_weights

    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    check_loading(recipe.model.name, entry, recipe.model)
    if missing := missing_weights(recipe, entry):
        raise ValueError(f"the tokenizer is not here. {missing}")
    with leaving_weights_unread():
        assembled = assemble_model(recipe.model.name, recipe.train.seed, recipe.model)
    shapes = tuple(map(assembled.transform.shape, group.media))
    layout = assembled.template.layout(prompt.text, prompt.target, shapes=shapes, turns=question.turns)
    return labelled_text(layout, assembled.template)
