"""Tests of models and folders of units that are brought into the editor."""
