"""Rows that an expectation set aside, by kind of flow: list, replay, discard.
Commits a replay as the flow itself commits a batch."""
