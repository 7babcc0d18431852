"""Who sees whom in rows of token trees: a few integers a token, and the attention of decoders that reads them."""
