"""A shop to play with, and a story that shows the product at work on it."""
