"""Commands that observe a flow: top, dashboard, doctor, load, profile, tune."""
