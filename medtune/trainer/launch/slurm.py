"""What medtune reads from the variables of a SLURM job, and the one thing that it asks of SLURM: to queue a job again.

Source: https://slurm.schedmd.com/sbatch.html, OUTPUT ENVIRONMENT VARIABLES, and https://slurm.schedmd.com/scontrol.html
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping

_SHELLS = ("bash", "interactive")
_FIRST_PORT, _PORTS = 10_000, 20_000
"""Ports from 10,000 to 29,999 lie below those that Linux gives to connections by itself."""
REQUEUE_TIMEOUT_S = 60


def job_of(variables: Mapping[str, str] | None = None) -> str | None:
    """Returns a name of the SLURM job of this process, which it keeps when it is queued again; None outside of a job.

    A job that is a shell has no such name: each command that is typed there is a piece of work of its own.
    """
    given = os.environ if variables is None else variables
    if "SLURM_JOB_ID" not in given or given.get("SLURM_JOB_NAME") in _SHELLS:
        return None
    return f"{given.get('SLURM_CLUSTER_NAME', 'cluster')}/{given['SLURM_JOB_ID']}"


def first_host(node_list: str) -> str:
    """Returns the first name of a list of nodes as SLURM writes it, for instance "gpu[07-09,12],big1".

    It is the first line of `scontrol show hostnames`.
    """
    name = node_list.strip()
    while found := re.match(r"([^,\[]*)\[([^\]]*)\](.*)", name):
        before, ranges, rest = found.groups()
        name = f"{before}{re.split('[,-]', ranges)[0]}{rest}"
    return name.split(",")[0]


def address_of(variables: Mapping[str, str]) -> tuple[str, int] | None:
    """Returns the host and a port at which the tasks of a job can meet; None outside of a job.

    The port follows from the numbers of the job and of the step, so that two steps of one job do not meet each other.
    MASTER_ADDR and MASTER_PORT go first.
    """
    nodes = (
        variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST") or variables.get("SLURM_NODELIST")
    )
    host = variables.get("MASTER_ADDR") or (first_host(nodes) if nodes else None)
    if host is None:
        return None
    job, step = int(variables.get("SLURM_JOB_ID", "0")), int(variables.get("SLURM_STEP_ID", "0"))
    port = variables.get("MASTER_PORT") or str(_FIRST_PORT + (job * 31 + step * 7919) % _PORTS)
    return host, int(port)


def queue_again() -> None:
    """Asks SLURM once to queue this job again; says so if it does not.

    Source: `--requeue` allows it, and at its time limit SLURM does not do it by itself.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        print("medtune: --requeue: this is no SLURM job (no SLURM_JOB_ID); continue with --resume", file=sys.stderr)
        return
    try:
        asked = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, timeout=REQUEUE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"medtune: scontrol requeue {job}: {error}; continue with --resume", file=sys.stderr)
        return
    if asked.returncode:
        print(f"medtune: scontrol requeue {job}: {asked.stderr.strip()}; continue with --resume", file=sys.stderr)
    else:
        print(f"asked SLURM to queue job {job} again; it then continues this run", flush=True)
