"""Smooth queries: summary and synthetic table."""
