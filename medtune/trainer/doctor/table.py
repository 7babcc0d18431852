"""The table of a checkpoint's checks, as text."""

import textwrap

from medtune.eval.results.doctor_file import DoctorFile

WIDTH = 118
_WORDS = {True: "pass", False: "FAIL", None: "-"}


def doctor_table(record: DoctorFile) -> str:
    """Returns one row for each check, and a sentence that sums them up."""
    name_width = max(len(check.name) for check in record.checks)
    lines = [
        f"doctor     {record.model}, {record.weights}" + (f", hash {record.weights_hash}" * bool(record.weights_hash))
    ]
    for check in record.checks:
        start = f"{_WORDS[check.passed]:4}  {check.name:{name_width}}  "
        told = textwrap.wrap(check.detail, WIDTH - len(start), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [start + told[0], *(" " * len(start) + more for more in told[1:])]
    return "\n".join([*lines, f"{record.headline()} ({record.questions} questions, {record.seconds:.0f} s)"])
