"""What `mainspring doctor` looks at, and what a node tells of itself for it."""
