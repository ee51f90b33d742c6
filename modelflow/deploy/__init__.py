"""What a served application is deployed with: texts made of what is known of it. Runs nothing."""
