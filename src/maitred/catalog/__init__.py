"""What is known of all servers and their tools: the store is the truth, a snapshot serves the reads."""
