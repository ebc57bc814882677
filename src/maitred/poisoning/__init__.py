"""Finds texts of servers that give orders to a model."""
