"""From frames to settled seconds: every run is sent until the stream has it."""
