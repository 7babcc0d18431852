"""Parts of pocket, the small real model that trains on a laptop."""
