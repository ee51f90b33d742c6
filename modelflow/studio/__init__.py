"""The pages that show a flow in a browser.

In: snapshots of a flow, of this process or another. Out: server-sent events with places and rates.

``board.py`` looks twice a second while a page is open. ``frame.py`` and ``picture.py`` (both pure)
make rates, verdicts and places; the page (TypeScript, ``studio/`` at the top) draws. ``gate.py``
checks token, host and origin. A page that is slow misses frames and delays nobody.
"""
