"""The callbacks of a run's Lightning trainer."""
