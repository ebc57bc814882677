"""The plain values that the parts of maitred hand to each other; standard library only."""
