"""The work of preparing: divided among processes and machines, kept in a folder until it is whole, and continued."""
