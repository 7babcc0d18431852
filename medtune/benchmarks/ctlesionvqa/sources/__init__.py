"""The sources of CTLesionVQA questions: the released tables with scans, a user's CTs with masks, and a simulation."""
