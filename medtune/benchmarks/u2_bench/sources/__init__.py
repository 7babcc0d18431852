"""Where U2-Bench questions come from: the released tables, and public sets."""
