"""Fixtures of the exports: readers of the proof that are forked."""

from tests.forked_readers import forked_readers

__all__ = ["forked_readers"]
