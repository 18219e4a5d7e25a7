"""Errors of estimates against ground truth, each under its usual name, and their NEES."""
