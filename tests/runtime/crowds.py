"""Helpers that use a flow from many threads at once."""

import threading

USERS = 8


def side_by_side(use, count=USERS):
    """Calls ``use(number)`` on many threads at once and raises their first error."""
    failures = []

    def guarded(number):
        try:
            use(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [
        threading.Thread(target=guarded, args=(n,), name=f"modelflow/test/{n}")
        for n in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
