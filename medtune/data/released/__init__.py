"""What both the reader and the scorer of a released benchmark know: its tasks, types and ids."""
