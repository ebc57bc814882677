"""Programs of agents that call tools: the engine, its bounds, saved chains."""
