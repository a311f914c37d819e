"""Families of linear queries, each one record map with exact bounds: over a record of a table, or a person of several."""
