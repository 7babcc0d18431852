"""Pages over several runs: side by side, and all below a folder."""
