"""Fills the cache of prepared volumes before a run, in several processes and on several machines."""
