"""Who gets in: manifests, security checks, approval, and what was approved."""
