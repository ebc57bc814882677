"""Chains: a short program that calls tools, run where it can do nothing else; only its result comes back."""
