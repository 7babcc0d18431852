"""What of the pages cannot be executed by a test, with the reason and what is done in its place.

Commands of medtune are in any case read by its own parser, and a recipe that they name is validated with a tiny model.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotHere:
    """Commands that cannot run here.

    Attributes:
        pattern: A regular expression that finds the command.
        reason: Why it does not run in a test.
        added: Words with which the same command runs here; None where none makes it run.
    """

    pattern: str
    reason: str
    added: tuple[str, ...] | None = None


RANKS = "eight ranks or several machines; tests/trainer/launch starts two ranks and two nodes by these arguments"
SERVER = "it asks a server; tests/trainer/experiment/test_endpoint.py asks a stand-in by the same recipe"
TABLE = (
    NotHere(r"--slurm (?!.*--dry)", "it submits a job; the script itself is written here", ("--dry",)),
    NotHere(r"^torchrun ", RANKS),
    NotHere(r"^ray ", "there is no cluster of Ray"),
    NotHere(r"--(?:nodes|devices) [2-9]\b(?!x)", RANKS),
    NotHere(r"train\.devices=[2-9]", RANKS),
    NotHere(r"model\.language_bits=4", "bitsandbytes quantises on a GPU; tests/trainer/precision does so on CPUs"),
    NotHere(r"^medtune eval endpoint_", SERVER),
    NotHere(r"^medtune compare .*endpoint_", "one of the runs is of a server; two runs are compared on other pages"),
    NotHere(r"--scale pocket", "it trains for half an hour; tests/trainer/studies makes the rows small"),
    NotHere(r"^medtune reproduce (?!.*--dry)", "it trains large models; the page's first command lists what they need"),
    NotHere(r"early_stopping", "200 steps with the tiny model take twelve seconds; here it is seven", (
        "--set", "train.max_steps=7")),
    NotHere(r"projector=vocabulary", "the example of BUSI asks no question 20 times; the simulation does", (
        "--set", "data.benchmark=fetal_gauge", "data.root=prepared/fetal_phantom")),
    NotHere(r"pocket_ct_ablation", "twenty pairs take a minute, and the soak trains them; here it is one", (
        "--set", "grid={model.vision: [vit3d], model.projector: [linear]}")),
    NotHere(r"seed_result", "results of a benchmark's own code; tests/benchmarks/rexsonovqa reads recorded ones"),
    NotHere(r"mlp\.experts", "no tiny model of a recipe has stacks of experts; tests/models/tuning adapts some"),
    NotHere(r"^medtune (?:check FOLDER|prepare BENCHMARK|prompts BENCHMARK)", "a form; the verb runs on another page"),
    NotHere(r"--prompts |^medtune prompts ", "prompts of others, not ours to keep; tests/benchmarks/u2_bench has them"),
    NotHere(r"^make (?:demo|setup|test)", "it takes minutes; CI makes the first and the last, a tutorial the demo"),
    NotHere(r"^(?:python -m )?pytest ", "a part of the soak; the files that it names are there"),
    NotHere(r"^(?:vllm-env|sglang-env)/|^python -m venv (?:vllm|sglang)", "an environment of its own, and a GPU"),
    NotHere(r"^(?:tensorboard|mlflow) ", "it serves until it is stopped; tests of loggers read the values"),
    NotHere(r"log\.wandb=online", "it asks the server of W&B, which no test may", ("--set", "log.wandb=disabled")),
    NotHere(r"^wandb ", "it asks the server of W&B, which no test may"),
    NotHere(r"\bhf:|^hf ", "it asks the hub, which no test may"),
    NotHere(r"^medtune export ", "its proof starts a new Python; tests/trainer/exporting makes it", ("--no-proof",)),
    NotHere(r"^medtune doctor ", "plain transformers answers for minutes; tests/trainer/doctor makes the checks"),
    NotHere(r"^ssh ", "it goes to another machine; the command behind it is served by the tests of view"),
)  # fmt: skip


def not_here(command: str) -> NotHere | None:
    """Returns the row of the table about a command; None if it is executed as it stands.

    >>> not_here("medtune run pocket_busi_lora --devices 8").reason[:11]
    'eight ranks'
    >>> not_here("medtune run pocket_busi_lora")
    """
    return next((row for row in TABLE if re.search(row.pattern, command)), None)
