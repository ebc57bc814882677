"""The parts of the gateway: offers, ledger, figures, use cases, events and the menu as it is kept."""
