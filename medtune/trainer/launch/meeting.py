"""Says where the launchers of several machines meet."""

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from medtune.trainer.launch.slurm import address_of

_DEFAULT_PORT = 29400
"""Source: torchrun's default port of rendezvous."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Meeting:
    """Where the launchers of a run meet.

    Attributes:
        endpoint: The host and the port.
        name: A name that all launchers of the run know, and those of other runs do not have.
        is_host: Whether this machine keeps the meeting; None lets PyTorch compare the names of host and machine.
        local_address: The address under which the others reach this machine; None takes its full name.
    """

    endpoint: str
    name: str
    is_host: bool | None
    local_address: str | None


def meeting(
    nodes: int, *, rendezvous: str | None, node_rank: int | None, variables: Mapping[str, str] | None = None
) -> Meeting:
    """Returns where the launchers meet: at `rendezvous`, else at MASTER_ADDR, else on the first node of a SLURM job.

    Args:
        nodes: The number of machines.
        rendezvous: The argument --rendezvous, HOST or HOST:PORT.
        node_rank: The number of this machine; None if it was not given.
        variables: The environment variables; None takes those of this process.
    """
    given = os.environ if variables is None else variables
    if nodes == 1:
        return Meeting("127.0.0.1:0", uuid.uuid4().hex, True, "127.0.0.1")
    if rendezvous is not None:
        host, port = _host_and_port(rendezvous)
    elif found := address_of(given):
        host, port = found
    else:
        raise ValueError(
            f"{nodes} machines have to meet: give --rendezvous HOST:PORT on each, the name of the first machine and a "
            "free port of it"
        )
    is_host = None if node_rank is None else node_rank == 0
    local = host if is_host or host in _LOOPBACK else given.get("SLURMD_NODENAME")
    parts = [given[name] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT") if name in given]
    return Meeting(f"{host}:{port}", "-".join(["medtune", host, str(port), *parts]), is_host, local)


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, _DEFAULT_PORT
    if not host or not port.isdigit():
        raise ValueError(f"--rendezvous is {text!r}; wanted HOST or HOST:PORT, e.g. gpu01:29400")
    return host, int(port)
