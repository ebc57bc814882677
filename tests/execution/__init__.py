"""Checking and routing calls."""
