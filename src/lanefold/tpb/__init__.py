"""Trainium TPB, the pooling and reduction leg."""
