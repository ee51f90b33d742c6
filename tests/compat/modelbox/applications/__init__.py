"""Whole applications as strangers write them who know ModelBox's documents, and nothing else."""
