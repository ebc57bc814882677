"""What an agent sees of the catalog, at which level of detail and at which price in tokens.

It renders values and keeps no state; `gateway` fills them. `pages` are the pages of the menu, `views` the
texts of one tool, `answers` the results of search and info, `budget` the token estimates. `tiers` and
`categories` order tools. To add a level of detail, add a function to `views`.
"""
