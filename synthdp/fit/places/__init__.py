"""Counts of places within places: least squares going down, and whole numbers that add up at every level."""
