"""The sources of U2-Bench questions: the released tables, and a rebuild from public image sets."""
