"""Keeps a folder that is only read from sending images, questions and a key to a server of its own choice.

The recipe of a run or an export names the server that its answers came from, or a judge; a stranger may have written
it.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.recipe.schema import Recipe

_HERE = ("localhost", "127.0.0.1", "::1")
MODEL, JUDGE = "model.endpoint", "eval.judge.endpoint"


def addresses_in(overrides: Sequence[str], *fields: str) -> list[str]:
    """Returns the addresses of servers that the command line gives, e.g. by `--set model.endpoint.base_url=URL`."""
    starts = tuple(f"{field}.base_url=" for field in fields)
    return [each.partition("=")[2].strip("'\"") for each in overrides if each.startswith(starts)]


def refuse_unnamed_servers(recipe: Recipe, overrides: Sequence[str], *, folder: Path) -> None:
    """Refuses a recipe of a folder that is read whose servers the command line does not name."""
    judge = None if recipe.eval.judge is None else recipe.eval.judge.endpoint
    for field, endpoint in ((MODEL, recipe.model.endpoint), (JUDGE, judge)):
        named = addresses_in(overrides, field)
        refuse_unnamed_server(endpoint, named, folder=folder, how=f"--set {field}.base_url=")


def refuse_unnamed_server(endpoint: Endpoint | None, named: Collection[str], *, folder: Path, how: str) -> None:
    """Refuses to ask a server that a folder names and the user does not; one on this machine is asked.

    Args:
        named: The addresses that the command line gives.
        how: The option by which it gives one, up to the address.
    """
    if endpoint is None or urlsplit(endpoint.base_url).hostname in _HERE or endpoint.base_url in named:
        return
    key = f", and the key in {endpoint.key_env}" if endpoint.key_env else ""
    raise ValueError(
        f"{folder}: its recipe.yaml asks the server {endpoint.base_url}, which would be sent what you ask about{key}. "
        "A folder that is only read names no server by itself; if you know this one, name it: "
        f"{how}{endpoint.base_url}"
    )
