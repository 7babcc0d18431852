"""Parts of the random, tiny twins that tests use."""
