"""From a spec, a watermark and a survey to a plan; and a plan as words."""
