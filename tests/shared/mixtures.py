"""What the random models of every floor's tests are mixed of."""

BIASES = (("feed_forward", "output"), (), ("attention",), ("attention", "feed_forward"), ("attention", "feed_forward", "output"))
