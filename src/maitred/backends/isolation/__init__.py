"""Programs in bubblewrap and images in containers."""
