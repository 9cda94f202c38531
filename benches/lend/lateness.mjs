// How late this process itself is, which measures others: on a busy machine it waits for a
// processor as they do, and an answer that lies there meanwhile was not late.

const TICK_MS = 1
/** Timers count in milliseconds: less than this may be nothing. */
const LATE_MS = 2

/** A clock that ticks in the loop all answers are heard in, and so is late when they are heard late. */
export class OwnLateness {
  constructor() {
    this.last = performance.now()
    /** When it last ticked before `last`, if that was late. */
    this.lateSince = undefined
    this.timer = setInterval(() => {
      const now = performance.now()
      this.lateSince = now - this.last - TICK_MS > LATE_MS ? this.last : undefined
      this.last = now
    }, TICK_MS)
  }

  /** For how many milliseconds what is heard at this moment may have lain there. */
  unheardMs() {
    const now = performance.now()
    if (now - this.last - TICK_MS > LATE_MS) return now - this.last
    // The loop came to its timers first, and to what lay there right after.
    return this.lateSince !== undefined && now - this.last < TICK_MS ? now - this.lateSince : 0
  }

  stop() {
    clearInterval(this.timer)
  }
}

/** Whether most of what it took can be our coming late to it. One that was slow by itself counts. */
export const isOwnFault = (unheardMs, ms) => unheardMs > LATE_MS && unheardMs > ms / 2
