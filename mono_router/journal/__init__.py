"""The journal: decisions kept with their outcomes, and what they teach."""
