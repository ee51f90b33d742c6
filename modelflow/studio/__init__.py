"""The pages that show a flow in a browser.

A snapshot of a flow, of this process or another, becomes server-sent events with places and rates.

``snapshot_feed.py`` reads the flow twice a second while a page is open, and else for the samples of
``history.py`` alone. ``frame.py``, ``figures.py`` and ``moments.py`` compute rates, verdicts and
places. The page (TypeScript, ``studio/`` at the top) draws them. ``site.py`` checks token, host and
origin. A slow page misses frames and delays no other page.
"""
