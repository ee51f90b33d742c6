"""Tests of the picture of a draft."""
