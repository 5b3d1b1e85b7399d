"""What happens in a run, as typed events; and the places they go to."""
