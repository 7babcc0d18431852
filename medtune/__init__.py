"""Fine-tunes medical vision-language models, and evaluates them on the benchmarks of the field."""

__version__ = "0.1.0"
