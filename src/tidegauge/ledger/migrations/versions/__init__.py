"""One module for each version. A module that was released never changes again."""
