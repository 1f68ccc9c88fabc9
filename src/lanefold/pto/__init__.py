"""Ascend PTO, the reduction and expansion tile operations."""
