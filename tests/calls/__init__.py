"""The way of a call: its steps, their order, and the answer that they pass on."""
