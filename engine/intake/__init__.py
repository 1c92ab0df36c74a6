"""From rows of Postgres to the wheel: judged, held until their second, applied; and the load of a start."""
