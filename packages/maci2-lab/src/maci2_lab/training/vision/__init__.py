"""Training of the match covariance."""
