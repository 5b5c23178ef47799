"""Training: jobs and what they leave behind."""
