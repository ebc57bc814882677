"""Who may call: access tokens, tokens of an authorization server, and limits."""
