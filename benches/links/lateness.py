"""How late this process itself is, which measures others: what lies there meanwhile was not late."""
import asyncio
import time

TICK_SECONDS = 0.02


class OwnLateness:
    """A clock that ticks in the loop everything is heard in, and so is late when that is heard late."""

    def __init__(self):
        self.last, self.late_since, self.most = time.monotonic(), None, 0.0

    async def tick(self):
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            late = now - self.last - TICK_SECONDS
            self.most = max(self.most, late)
            # What lay there is heard after this tick and before one that is in time.
            self.late_since = self.last if late > TICK_SECONDS else None
            self.last = now

    def unheard(self):
        """For how many seconds what is heard at this moment may have lain there."""
        since = self.last if self.late_since is None else self.late_since
        late = time.monotonic() - since - TICK_SECONDS
        return late if late > TICK_SECONDS else 0.0
