"""Families of statistics of record keys."""
