"""Runs a command at a terminal of its own and says yes to the one confirmation: see n8n.sh."""
import os
import pty
import select
import signal
import sys

# The prompt stands at No, and what is typed before it is there does not count, nor what
# is typed within a moment after.
ASKED, YES = b"Yes, connect", b"\x1b[A\x1b[A\r"
PAUSE_SECONDS = 2


def main():
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    said, is_answered = b"", False
    while True:
        is_shown = ASKED in said and b"No" in said.split(ASKED)[-1]
        if is_shown and not is_answered and not select.select([terminal], [], [], PAUSE_SECONDS)[0]:
            # It waits for a key. One that came too early was dropped, and nothing is drawn
            # after it: then it is pressed again.
            os.write(terminal, YES)
            is_answered = bool(select.select([terminal], [], [], PAUSE_SECONDS)[0])
            continue
        try:
            some = os.read(terminal, 65536)
        except OSError:
            break
        if not some:
            break
        os.write(1, some)
        said = (said + some)[-65536:]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


sys.exit(main())
