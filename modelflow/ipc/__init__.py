"""Messages between processes of one flow."""
