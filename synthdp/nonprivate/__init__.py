"""Everything that reads real rows without noise, for people who may see those rows; never for publication."""
