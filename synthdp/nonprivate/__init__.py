"""Everything that reads real rows without noise: for those who hold them, never for publication."""
