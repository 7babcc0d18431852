"""Studies: reads them, makes their runs, collects the answers and writes the page."""
