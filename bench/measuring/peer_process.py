"""A peer at work: a script of `bench.other_tools` that the Python of the peer's own environment runs."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

ENVIRONMENTS = Path(".peers")
"""The folder of the environments, in the working directory; `make bench-peers` and `make bench-rewards` build them."""
_TARGETS = {"trl": "bench-rewards"}
"""The target that builds an environment, where it is not bench-peers."""
_TOLD = 2000
"""Characters of a failed peer's output that are shown."""


class Peer(Protocol):
    """Carries out one order and returns the reply."""

    def __call__(self, order: Mapping[str, Any], /) -> dict[str, Any]:
        """Returns the reply to an order."""
        ...


def python_of(name: str) -> Path:
    """Returns the Python of the environment of that name."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not (ENVIRONMENTS / name / ".ready").is_file() or not python.is_file():
        target = _TARGETS.get(name, "bench-peers")
        raise FileNotFoundError(
            f"{python}: the environment of this peer is not built; run `make {target}` in the repository, which builds "
            "what it needs (about 6 GB each) and runs the bench"
        )
    return python


@contextmanager
def working(python: Path, script: str, job: Mapping[str, Any], scratch: Path) -> Iterator[Peer]:
    """Gives a peer that waits for orders; it is ended when the block ends."""
    written, said = scratch / f"{script}.json", scratch / f"{script}.log"
    written.write_text(json.dumps(job), "utf-8")
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            # The folder of the script must not stand before the libraries of the environment.
            [str(python.absolute()), "-P", str(_file_of(script)), str(written)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(),
        )
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin, process.stdout

    def ordered(order: Mapping[str, Any], /) -> dict[str, Any]:
        try:
            print(json.dumps(order), file=to, flush=True)
            line = back.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the peer {script} failed at an order:\n{said.read_text('utf-8')[-_TOLD:]}")
        return dict(json.loads(line))

    try:
        yield ordered
    finally:
        process.kill()
        process.wait()
        back.close()
        with suppress(BrokenPipeError):
            to.close()


def _file_of(script: str) -> Path:
    found = find_spec(f"bench.other_tools.{script}")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def _environment() -> dict[str, str]:
    """Returns the variables of this process without the path of its modules; one thread, and nothing asked of a hub."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**own, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
