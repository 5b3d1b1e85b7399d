"""The ledger alone, for people who keep their own job: time windows, version ranges, high-water marks."""
