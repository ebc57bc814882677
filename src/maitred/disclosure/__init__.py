"""What an agent is shown of the catalog, at which level of detail, and at how many tokens.

It makes texts and values from a snapshot; it holds no state. `views` and `signature` show one tool,
`pages` and `answers` many, `budget` packs them, `tiers` and `categories` order them.
To add a level of detail, write its entry in `views.DETAIL_VIEWS` and one in `maitred.model.details.DETAILS`.
"""
