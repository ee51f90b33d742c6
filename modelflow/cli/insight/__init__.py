"""Commands that look at a flow: top, dashboard, doctor, load, profile, tune."""
