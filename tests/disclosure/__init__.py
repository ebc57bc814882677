"""What an agent is shown, and what it costs."""
