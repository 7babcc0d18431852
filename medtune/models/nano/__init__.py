"""Parts of the tiny models with random weights ("twins") that stand in for the real models in tests."""
