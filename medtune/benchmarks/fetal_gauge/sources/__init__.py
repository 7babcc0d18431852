"""The sources of Fetal-Gauge questions: our own layout, public sets, and a simulation."""
