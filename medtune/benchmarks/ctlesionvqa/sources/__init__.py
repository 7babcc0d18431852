"""Where CTLesionVQA questions come from: the released tables with scans, and a simulation."""
