"""Parts that the benches share: what they return, how time and memory are measured, and what they run on."""
