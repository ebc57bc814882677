"""The walk-through of the manual: what is typed in it, how it is recorded, and how it becomes a picture."""
