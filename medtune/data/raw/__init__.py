"""What every source of questions is, and what helps to read raw files."""
