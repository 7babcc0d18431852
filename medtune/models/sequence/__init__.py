"""One module per sequence family: prompt and answer -> token ids, labels and media spans."""
