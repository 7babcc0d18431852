"""Makes the facts about a run for tests that have scores but no run."""

from medtune.eval.data_label import DataLabel
from medtune.eval.results.build import RunFacts
from medtune.eval.results.schema import ProtocolFacts, UsedProtocol

USED = UsedProtocol(temperature=0.0, repeats=1, condition_repeats={"text_only": 3}, max_new_tokens=64)


def run_facts(label: DataLabel, *, data_hash: str = "0" * 64) -> RunFacts:
    """Returns the facts of a run without training."""
    return RunFacts(recipe="nano_busi_lora", data_hash=data_hash, label=label, protocol=ProtocolFacts(used=USED))
