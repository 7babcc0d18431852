"""The sources of Fetal-Gauge questions of its own: a reconstruction from public sets, and a simulation."""
