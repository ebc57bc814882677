"""What an agent is shown of the catalog, at which level of detail and at which price."""
