"""Families of linear queries, each one record map with exact bounds."""
