"""A support assistant for an invented shop: the application decides, a composer only words the evidence.

    shop.build(path); connection = shop.open_shop(path)
    assistant = Assistant(connection)
    assistant.ask("Do you ship to Norway?").text
"""

from .app import Answer, Assistant
from .compose import Composer, ExtractiveComposer, Sentence
from .shop import ShopUnavailable, build, demo_token, open_shop

__all__ = ["Answer", "Assistant", "Composer", "ExtractiveComposer", "Sentence", "ShopUnavailable", "build", "demo_token", "open_shop"]
