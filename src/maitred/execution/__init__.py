"""Carry out calls: check the arguments, reach the server, bring back what it answered."""
