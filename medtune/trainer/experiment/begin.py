"""Makes the folder of a new run, or checks that a command may go on with the run that an interrupted one began."""

from collections.abc import Mapping, Sequence

from medtune.data.files import replace_file
from medtune.data.types import MediaGroup
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import NO_CONTENTS, DataFacts, RunFolder, environment, write_json
from medtune.trainer.runs.saved_states import put_damaged_aside, refuse_old_state, refuse_other_strategy
from medtune.trainer.seen import DATA, differences

LIMIT = "limit"
"""The entry of environment.json with the value of --limit."""


def begin_or_resume(
    folder: RunFolder,
    recipe: Recipe,
    *,
    resume: bool,
    command: Sequence[str],
    about: Mapping[str, str],
    data: DataFacts,
    limit: int | None,
    text: str | None = None,
    accept_changed_data: bool = False,
    asked: Sequence[MediaGroup] = (),
    contents: Mapping[str, str] = NO_CONTENTS,
) -> list[str]:
    """Makes the folder of a new run, or checks and continues that of an interrupted one.

    Args:
        limit: About how many questions of each split are used, which decides the results like a setting; None is all.
        data: Facts about the prepared folders, which are compared when the run goes on.
        text: The recipe as it is written, where not all of its settings are known; None writes all.
        accept_changed_data: Whether the run goes on with other data than it began with.
        asked: The media groups that are evaluated, which are compared with what the run has learnt if its data changed.
        contents: The digest of what each of their media files shows.

    Returns:
        Sentences about saved states that were put aside.
    """
    root, written = folder.root, [(text or recipe_to_yaml(recipe)).encode()]
    if resume:
        if not folder.recipe.is_file():
            raise FileNotFoundError(f"{root}: no run to resume here (no recipe.yaml); start it without --resume")
        changed = differences(folder.read_recipe(), recipe)
        if (before := folder.recorded().get(LIMIT, limit)) != limit:
            changed.append(f"--limit is {_limit_said(before)} there and {_limit_said(limit)} here")
        if changed:
            raise ValueError(
                f"{folder.recipe}: the interrupted run has other settings than this command: {'; '.join(changed)}. "
                "Resume it with the same recipe and --set, or start a new folder"
            )
        refuse_old_state(folder)
        if accept_changed_data:
            folder.accept_changed_data(data, about, asked, contents)
        folder.refuse_other_data(recipe.data.root, data)
        aside = list(put_damaged_aside(folder))
        refuse_other_strategy(folder, recipe.train.strategy)
        replace_file(folder.recipe, written)
        return aside
    folder.refuse_used()
    root.mkdir(parents=True, exist_ok=True)
    write_json(folder.environment, {**environment(command), LIMIT: limit, **about, DATA: data})
    # The recipe is written last. A folder with a recipe therefore holds a run that can be opened and resumed.
    replace_file(folder.recipe, written)
    return []


def _limit_said(limit: object) -> str:
    return "not given" if limit is None else str(limit)
