"""Formats the table of trainable parts as text."""

from __future__ import annotations

from collections.abc import Sequence

from medtune.models.tuning.apply import PartRow


def part_table(rows: Sequence[PartRow]) -> str:
    """Returns a table with one line for each part: its mode, learning rate and number of trainable parameters."""
    head = f"{'part':<12}{'mode':<12}{'lr':>9}{'parameters':>14}{'trainable':>12}{'share':>9}{'LoRA modules':>14}"
    lines = [head, "-" * len(head)]
    for row in rows:
        rate = "-" if row.lr is None else f"{row.lr:.1e}"
        whole = row.parameters + row.adapters
        mode = f"{row.mode}, 4 bit" if row.quantized else row.mode
        lines.append(
            f"{row.part:<12}{mode:<12}{rate:>9}{row.parameters:>14,}{row.trainable:>12,}"
            f"{row.trainable / whole:>9.2%}{row.adapted_modules or '-':>14}"
        )
    return "\n".join(lines)
