"""The work of preparing: divided among processes, kept in a folder until it is whole, and continued."""
