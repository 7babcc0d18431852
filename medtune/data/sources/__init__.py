"""One module per source: raw files on disk -> questions with facets."""
