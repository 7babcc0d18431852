"""The commands that work on finished runs: report, compare, judge, audit, power, export and chat."""
