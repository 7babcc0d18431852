"""The sources of CTLesionVQA questions: the released tables with scans, and a simulation."""
