"""The pages that show a flow in a browser."""
