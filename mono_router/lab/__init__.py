"""The laboratory: cases, evaluation, tuning, plots."""
