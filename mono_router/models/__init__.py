"""Models: scripted, simulated, recorded, and Claude."""
