"""medtune fine-tunes medical vision-language models on the benchmarks that judge them."""

__version__ = "0.1.0"
