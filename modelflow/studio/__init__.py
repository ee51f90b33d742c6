"""The pages that show a flow in a browser.

In: snapshots of a flow, of this process or another. Out: server-sent events with places and rates.

``snapshot_feed.py`` looks twice a second while a page is open. ``frame.py`` and ``moments.py``
make rates, verdicts and places; the page (TypeScript, ``studio/`` at the top) draws.
``site.py`` checks token, host and origin. A page that is slow misses frames and delays
nobody.
"""
