"""Features that frozen modules made of media items, kept in memory and in files."""
