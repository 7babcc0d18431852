"""Where Fetal-Gauge questions come from: our own layout, public sets, and a simulation."""
