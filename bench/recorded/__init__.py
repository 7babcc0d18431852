"""What the files in docs/bench say, and which code they were measured on."""
