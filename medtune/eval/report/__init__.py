"""Makes the report of a run: report.html, one file that opens offline, and report.md with the same tables."""
