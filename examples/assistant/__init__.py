"""A support assistant for an invented shop: the application decides, a composer only words the evidence.

    assistant = Assistant(shop.build(path))
    assistant.ask("Do you ship to Norway?").text
"""

from .app import Answer, Assistant
from .compose import Composer, ExtractiveComposer, Sentence
from .desk import Desk
from .embeddings import Embeddings
from .shop import ShopUnavailable, build, demo_token, open_shop

__all__ = ["Answer", "Assistant", "Composer", "Desk", "Embeddings", "ExtractiveComposer", "Sentence", "ShopUnavailable", "build", "demo_token", "open_shop"]
