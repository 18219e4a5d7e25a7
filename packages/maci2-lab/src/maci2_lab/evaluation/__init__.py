"""Estimates against truth: metrics, tables, and whether a recording can be trusted at all."""
