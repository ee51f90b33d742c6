"""Whole applications, written with ModelBox's documents alone."""
