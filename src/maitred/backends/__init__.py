"""Live connections to upstream servers, one transport a file, and the pool that owns them."""
