"""How other evaluation kits turn replies into numbers, as rules that stand beside ours; this is no benchmark itself."""
