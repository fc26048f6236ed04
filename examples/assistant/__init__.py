"""A support assistant for an invented shop: the application decides, the composer only words the evidence."""
