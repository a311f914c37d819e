"""Scores of candidates, which a selection asks for."""
