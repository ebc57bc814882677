"""What monitoring systems get of a gateway."""
