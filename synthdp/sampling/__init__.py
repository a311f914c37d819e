"""From a distribution over cells to rows of a table."""
