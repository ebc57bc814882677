"""The rules of the scan, one kind of order a file."""
