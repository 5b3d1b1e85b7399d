"""How the output of each kind of flow is compared with its inputs.
Uses `compare/`; reads both sides and changes nothing."""
