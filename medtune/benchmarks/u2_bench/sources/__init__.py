"""The sources of U2-Bench questions: the released tables, and public sets."""
