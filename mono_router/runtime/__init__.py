"""The runtime: conversations, execution modes and tools that run."""
