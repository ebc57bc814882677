"""Counts of calls and tokens, and the histograms that they are kept in."""
