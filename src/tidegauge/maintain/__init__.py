"""Looking after what has been moved: proving that it is the same."""
