"""The report of a run: report.html, one file without any request to the outside, and report.md with the same tables."""
