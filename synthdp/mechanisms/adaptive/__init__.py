"""Adaptively chosen marginals: select, measure, fit."""
