"""Speed compared with other libraries."""
