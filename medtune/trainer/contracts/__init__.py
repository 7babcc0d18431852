"""The checks that every extension has to pass; `medtune check` and tests/contracts run them."""
