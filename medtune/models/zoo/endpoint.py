"""endpoint: any model on an OpenAI-compatible server, which model.endpoint names; for evaluation only."""

from __future__ import annotations

from medtune.models.assemble import ServedEntry


def entry() -> ServedEntry:
    """Returns the zoo entry."""
    return ServedEntry("a model behind an OpenAI-compatible endpoint", "the provider's terms of use")
