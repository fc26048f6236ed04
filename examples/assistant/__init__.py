"""A support assistant for an invented shop: the application decides, a composer only words the evidence.

    assistant = Assistant(shop.build(path))
    assistant.ask("Do you ship to Norway?").text
"""

import os

os.environ.setdefault("DISABLE_TQDM", "1")  # bm25s would otherwise look for notebook widgets to draw a progress bar with

from .app import Answer, Assistant  # noqa: E402
from .compose import Composer, ExtractiveComposer, Sentence  # noqa: E402
from .desk import Desk  # noqa: E402
from .embeddings import Embeddings  # noqa: E402
from .shop import ShopUnavailable, build, demo_token, open_shop  # noqa: E402

__all__ = ["Answer", "Assistant", "Composer", "Desk", "Embeddings", "ExtractiveComposer", "Sentence", "ShopUnavailable", "build", "demo_token", "open_shop"]
