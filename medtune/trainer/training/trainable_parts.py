"""Formats the table of trainable parts as text."""

from collections.abc import Sequence

from medtune.models.tuning.apply import PartRow


def part_table(rows: Sequence[PartRow]) -> str:
    """Returns a table with one line for each part: how it learns, how much of it does, and in which number types.

    The column "stored in" is about the weights that do not learn, "learns in" about those that do.
    """
    head = (
        f"{'part':<12}{'mode':<12}{'lr':>9}{'parameters':>14}{'trainable':>12}{'share':>9}{'LoRA modules':>14}"
        f"{'stored in':>11}{'learns in':>11}"
    )
    lines = [head, "-" * len(head)]
    for row in rows:
        rate = "-" if row.lr is None else f"{row.lr:.1e}"
        whole = row.parameters + row.adapters
        mode = f"{row.mode}, 4 bit" if row.quantized else row.mode
        lines.append(
            f"{row.part:<12}{mode:<12}{rate:>9}{row.parameters:>14,}{row.trainable:>12,}"
            f"{row.trainable / whole:>9.2%}{row.adapted_modules or '-':>14}"
            f"{row.stored or '-':>11}{row.learns or '-':>11}"
        )
    return "\n".join(lines)
