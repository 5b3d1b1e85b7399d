"""What the flows of one table share: plan, resume, deletes, repair, backfill.
The flows themselves (`extract`, `load`, `replicate`) stand one folder up."""
