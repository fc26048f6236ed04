"""French numbers and dates into English, by the transformer that the book works by hand."""
