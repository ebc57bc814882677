"""What the operator wrote: settings, where they come from, and how references in them are resolved."""
