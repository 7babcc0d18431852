"""Finds out, before a run begins, whether W&B takes its curves: which server, with which key, whether it answers.

W&B itself waits for a minute and a half, and then ends the run with a traceback.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx

from medtune.trainer.recipe.schema import LogBlock

Mode = Literal["online", "offline", "disabled"]
REACHED_S = 5.0
"""The time in seconds within which W&B has to answer, the search for its address included (our own choice)."""
BEGUN_S = 9
"""The time in seconds within which W&B has to begin a run after it has answered (likewise)."""
FINISHED_S = 30
"""The time in seconds within which W&B has to take what is left at the end of a run; it would wait without end."""
_OFFLINE = ("offline", "dryrun")
_ASKED = {"query": "query { viewer { id } }"}


def wandb_mode(block: LogBlock) -> Mode:
    """Returns how a run uses W&B; where auto goes offline although there is a key, it says why, in one line.

    Raises:
        ValueError: The recipe says online, and there is no key, or W&B cannot be reached with it.
    """
    if block.wandb in ("offline", "disabled"):
        return block.wandb
    key = _key()
    if block.wandb == "auto" and (key is None or os.environ.get("WANDB_MODE") in _OFFLINE):
        return "offline"
    wrong = f"there is no key for {server()}: `wandb login`, or set WANDB_API_KEY" if key is None else refusal(key)
    if wrong is None:
        return "online"
    if block.wandb == "online":
        raise ValueError(f"log.wandb is online and {wrong}; or set log.wandb=offline and send the run later")
    print(f"W&B: {wrong}. The run is logged offline, in its folder wandb", file=sys.stderr, flush=True)
    return "offline"


def refusal(key: str) -> str | None:
    """Returns why W&B takes no run with a key; None if it answers, and knows the key."""
    said = [f"{server()} did not answer within {REACHED_S:.0f} seconds"]

    def ask() -> None:
        said[0] = _answered(key)

    # The search for an address has no limit of its own.
    asking = threading.Thread(target=ask, name="W&B", daemon=True)
    asking.start()
    asking.join(REACHED_S)
    return said[0] or None


def _answered(key: str) -> str:
    address = server()
    try:
        answer = httpx.post(f"{address}/graphql", json=_ASKED, auth=("api", key), timeout=REACHED_S)
        known = answer.json().get("data", {}).get("viewer") if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError, ImportError) as error:  # A SOCKS proxy.
        return f"{address} cannot be reached ({type(error).__name__}: {str(error) or 'no words'})".replace("\n", " ")
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN) or (known is None and answer.is_success):
        return f"{address} does not know the key: `wandb login --relogin`, or set WANDB_API_KEY"
    return "" if known is not None else f"{address} answered with the HTTP status {answer.status_code}"


def server() -> str:
    """Returns the address of W&B: WANDB_BASE_URL, or else that of `wandb login --host`, or else W&B's own."""
    if address := os.environ.get("WANDB_BASE_URL"):
        return address.rstrip("/")
    from wandb.sdk import wandb_setup

    return str(wandb_setup.singleton().settings.base_url)


def wandb_settings() -> dict[str, Any]:
    """Returns what each of our runs tells W&B: which server it has asked, how long to wait, and what stays here.

    W&B reads the environment once in a process, so that it would not see a server that was set behind its first run.
    """
    # Errors and figures about W&B itself are sent at the end of the process, which waits for them, a dead network too.
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    # The metadata that W&B collects by itself name host, user, folders, the command line and all that is installed.
    # environment.json holds what a reader needs.
    private = {
        "x_disable_meta": True,
        "x_save_requirements": False,
        "disable_git": True,
        "disable_code": True,
        "host": "",
    }
    waits = {"init_timeout": BEGUN_S, "finish_timeout": FINISHED_S, "finish_timeout_raises": True}
    return {"base_url": server(), "console": "off", "silent": True, **waits, **private}


@contextmanager
def refused_in_a_line() -> Iterator[None]:
    """Says in one line why W&B begins no run.

    Raises:
        ValueError: W&B raised one of its own errors.
    """
    from wandb.errors import Error

    try:
        yield
    except Error as error:
        said = " ".join(str(error).split())
        raise ValueError(f"W&B began no run ({said}); set log.wandb=offline and send the run later") from error


def _key() -> str | None:
    if key := os.environ.get("WANDB_API_KEY"):
        return key
    from wandb.errors import AuthenticationError
    from wandb.sdk.lib.wbauth import read_netrc_auth

    try:
        found: str | None = read_netrc_auth(host=server())
    except (AuthenticationError, ValueError):
        return None
    return found
