"""The layers that look at a manifest, one file each."""
