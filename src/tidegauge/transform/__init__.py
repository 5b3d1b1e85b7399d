"""The user's transform: what its SQL says, how it keeps the law, and what it makes of a batch's changes."""
