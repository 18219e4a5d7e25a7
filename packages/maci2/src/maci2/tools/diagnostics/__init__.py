"""Diagnosis of a recording: what is wrong with it, causes before effects."""
