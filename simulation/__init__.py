"""A deterministic simulation of the protocol: the real rules and the real runner in a made-up world."""
