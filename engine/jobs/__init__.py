"""Jobs as users write them: what a definition may be, and how it is stored, imported, exported, explained."""
