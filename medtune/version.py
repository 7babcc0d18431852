"""The version of medtune, which `pyproject.toml` and every output take from here."""

__version__ = "0.1.0"
