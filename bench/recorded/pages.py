"""Writes docs/bench/README.md, with every record, and README's table of speed, which names the worst case too."""

from collections.abc import Iterator, Sequence

from bench.recorded.code import ROOT
from bench.recorded.records import DAYS, FOLDER, Record, records

PAGE = FOLDER / "README.md"
FIRST_PAGE = ROOT / "README.md"
HEAD = "| questions about an image of so many visual tokens, random Qwen2.5-VL, CPU |"
"""How README's table begins; it ends with the first line that belongs to no table."""
PEERS = "peers"
QUESTIONS = (1, 8, 43)
TASKS = ("training", "generation", "likelihood")
"""What is compared in the record of the peers: the first word of a title."""
_ABOUT = f"""# Speed, as recorded

Each record compares two ways to the same result in one run, and holds machine, date and the hashes of the files that
were measured. `python -m bench records` writes this page from the records and says which of these files have changed
since; a test fails where they have changed for more than {DAYS} days. `python -m bench NAME --record docs/bench`
measures again. Other work on the machine makes times longer, and ratios of one run little different: `load before` is
the number of processes that used the cores or waited for them when the bench began.
"""


def write_pages() -> None:
    """Writes both from the records in docs/bench."""
    there = list(records())
    PAGE.write_text(page(there), "utf-8")
    FIRST_PAGE.write_text(with_table(FIRST_PAGE.read_text("utf-8"), there), "utf-8")


def page(there: Sequence[Record]) -> str:
    """Returns the page with every record."""
    return "\n".join([_ABOUT, *(line for record in there for line in _section(record))])


def _section(record: Record) -> Iterator[str]:
    machine = record.machine
    threads = f", {machine['threads']} thread" if machine["threads"] == "1" else ""
    yield f"## {record.file.stem}\n"
    yield f"{record.subject}. {record.day}, {record.where()}{threads}, load before {machine['load_before']:g}.\n"
    if record.note:
        yield f"{record.note}\n"
    yield "| | quick | plain | ratio | target |\n|---|---|---|---|---|"
    for way in record.ways:
        ratio = record.ratios[way["title"]]
        missed = "" if ratio >= way["target"] else ", missed"
        quick, plain = (f"{way[name]}: {way[f'{name}_s']:.3g} s" for name in ("quick", "plain"))
        yield f"| {way['title']} | {quick} | {plain} | {ratio:.2f} | {way['target']:g}{missed} |"
    yield "\n| | measured | limit |\n|---|---|---|"
    for limit in record.limits:
        missed = "" if limit["value"] <= limit["at_most"] else ", exceeded"
        yield f"| {limit['title']} | {limit['value']:.3g} {limit['unit']} | {limit['at_most']:g}{missed} |"
    yield ""


def speed_table(there: Sequence[Record]) -> list[str]:
    """Returns README's table: how many times as fast as others, by the number of questions about an image."""
    (peers,) = (record for record in there if record.name == PEERS)
    rows = [(number, [_cell(peers, task, number) for task in TASKS]) for number in QUESTIONS]
    rows = [(number, cells) for number, cells in rows if any(cells)]
    plain: list[str] = [next(way["plain"] for way in peers.ways if way["title"].startswith(task)) for task in TASKS]
    others = [each.partition(", ")[0] + ", its best batch" * ("the best of" in each) for each in plain]
    if 1 not in dict(rows):
        raise ValueError(f"{peers.file}: nothing was measured with one question about an image, which the table names")
    return [
        f"{HEAD} {' | '.join(map('{}: times as fast as {}'.format, TASKS, others))} |",
        f"|---|{'---|' * len(TASKS)}",
        *(f"| {number} | {' | '.join(cells)} |" for number, cells in rows),
    ]


def _cell(peers: Record, task: str, questions: int) -> str:
    found = [
        (title.partition(" tokens")[0].rpartition(" ")[2], ratio)
        for title, ratio in peers.ratios.items()
        if title.startswith(f"{task}, {questions} questions")
    ]
    return ", ".join(f"{ratio:.1f} ({tokens} tokens)" for tokens, ratio in found)


def with_table(text: str, there: Sequence[Record]) -> str:
    """Returns README with the table anew."""
    lines = text.split("\n")
    first = next((place for place, line in enumerate(lines) if line.startswith(HEAD)), None)
    if first is None:
        raise ValueError(f"README.md: no line begins with {HEAD!r}, the head of the table of speed")
    last = next(place for place in range(first, len(lines)) if not lines[place].startswith("|"))
    return "\n".join([*lines[:first], *speed_table(there), *lines[last:]])
