"""A call on its way: arguments, results, cache, screening, subscriptions."""
