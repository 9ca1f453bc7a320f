"""Data types beside pycrdt and loro: time, bytes and memory, in the same run."""
