"""The settings of `medtune eval RUN --engine`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medtune.models.server.engines import Engine


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How a run's model is served.

    Attributes:
        engine: The engine.
        python: The Python of the engine's environment; None where servers run already.
        further: Further arguments of the server.
        devices: The GPUs of each server that is started; None for one server that sees what this process sees.
        addresses: The servers that run already; empty where they are started here.
        patience_s: Seconds within which a started server has to be healthy.
    """

    engine: Engine
    python: Path | None
    further: tuple[str, ...]
    devices: tuple[str | None, ...]
    addresses: tuple[str, ...]
    patience_s: int
