"""The NATS server: connections to it and how they log in, the stream, the KV bucket."""
