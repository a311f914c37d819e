"""Scores of candidates: what a selection asks for."""
