"""The finite world: axes, domains, and the map between values and codes."""
