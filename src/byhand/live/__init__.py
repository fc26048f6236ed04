"""The whole training step as data: for every recorded stage the rule that gives it, from which the live page explains and recomputes it.

`python -m byhand.live` writes what the page reads.
"""
