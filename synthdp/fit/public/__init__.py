"""The part of a fit that knows public rows: how they are smoothed, and how far they are trusted."""
