"""Looks at the disk, and says of every call whether it kept the promise."""
import collections
import os

from callers import DEADLINE_SECONDS, TRY_SECONDS
from proxy import FAULTS

LEFT_SECONDS = 10
# A call ends by its deadline, and its caller hears of it one round trip later: as long as a
# try may take before it is given up. Callers ask on for longer, so that what is late is seen.
ROUND_TRIP_SECONDS = TRY_SECONDS
# From so long on a run has to have seen every fault, and from so long on a daemon that was
# killed after it acted and before it replied.
ALL_FAULTS_SECONDS, ALL_KILLS_SECONDS = 60, 300
SHOWN = 12
# What a machine that is slow by itself can bring about as well.
LATE = ["ended after its deadline", f"had {LEFT_SECONDS} s left after all was back"]


def effects(laptops, served):
    """How often every name stands where."""
    found = collections.Counter()
    for place, directory in [(laptop.name, laptop.lent) for laptop in laptops] + [("server", served)]:
        for base, _, files in os.walk(directory):
            if os.path.basename(base) == "tree":
                continue
            for name in files:
                with open(os.path.join(base, name), encoding="utf-8", errors="replace") as file:
                    for line in file:
                        if line.startswith("call-"):
                            found[(place, line.strip())] += 1
    return found


def had_time(call, spans):
    """Whether server and link were back, undisturbed, for so long before its deadline."""
    deadline = call.began + DEADLINE_SECONDS
    return any(min(end, deadline) - max(start, call.began) >= LEFT_SECONDS
               for start, end in spans[call.laptop.name])


def missed(calls, laptops, served, spans):
    found = effects(laptops, served)
    wrong = collections.defaultdict(list)
    done_untold = 0
    for call in calls:
        about = f"{call.name} {call.kind} {call.laptop.name} {call.outcome} after {call.tries} tries: {call.why}"
        if call.ended is None or call.outcome is None:
            wrong["ended with neither a result nor an error"].append(about)
            continue
        if call.outcome == "untyped":
            wrong["failed without a type"].append(about)
        if call.ended - call.began > DEADLINE_SECONDS + ROUND_TRIP_SECONDS:
            wrong["ended after its deadline"].append(about)
        if call.is_mutation:
            there = found[(call.laptop.name, call.name)]
            elsewhere = sum(found[(other.name, call.name)] for other in laptops if other is not call.laptop)
            elsewhere += found[("server", call.name)]
            if call.outcome == "done" and there != 1:
                wrong["told to be done, and there {} times".format(there)].append(about)
            if there > 1:
                wrong["done twice"].append(about)
            if elsewhere:
                wrong["done on another machine"].append(about)
            done_untold += call.outcome != "done" and there == 1
        if call.outcome == "done":
            continue
        if call.outcome == "link_lost":
            if not call.laptop.was_dead(call.began, call.ended):
                wrong["lost, and its daemon was not killed"].append(about)
        elif call.outcome in ("deadline", "overload", "not_linked", "machine_gone", "busy"):
            if had_time(call, spans):
                wrong[f"had {LEFT_SECONDS} s left after all was back"].append(about)
        else:
            wrong["failed as nothing should here"].append(about)
    return wrong, done_untold


def unseen(seconds, done_untold, facts):
    """What a run of so long should have met, and did not: it would show less than it says."""
    never = []
    if seconds >= ALL_FAULTS_SECONDS:
        never += [f"no connection was {fault}" for fault in FAULTS if not facts["faults"][fault]]
        never += [] if facts["server_kills"] else ["the server was not killed"]
        never += [] if facts["muted"] else ["no daemon was killed when it could not reply"]
    if seconds >= ALL_KILLS_SECONDS and not done_untold:
        never.append("no daemon was killed between an act and its reply")
    return never


def told(calls, wrong, done_untold, facts):
    took = sorted(call.ended - call.began for call in calls if call.outcome == "done" and call.ended)
    part = lambda share: took[min(len(took) - 1, int(len(took) * share))] if took else float("nan")
    outcomes = collections.Counter(call.outcome for call in calls)
    kinds = collections.Counter(call.kind for call in calls)
    rows = [
        ("calls", f"{len(calls):,}, {len(calls) / facts['calling']:.0f} a second for {facts['calling']:.0f} s: " + ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())),
        ("ended", ", ".join(f"{n:,} {outcome}" for outcome, n in outcomes.most_common())),
        ("asked again", f"{sum(call.tries > 1 for call in calls):,} calls, {max(call.tries for call in calls)} times at most"),
        ("done in", f"p50 {part(.5) * 1000:.0f} ms, p99 {part(.99):.1f} s, at most {took[-1] if took else float('nan'):.1f} s"),
        ("server killed", f"{facts['server_kills']} times; up again in {facts['up_again']:.1f} s at most"),
        ("links back", f"in {facts['back']:.1f} s at most after the server, {facts['back_mean']:.1f} s on average"),
        ("daemons killed", f"{facts['daemon_kills']} times, {facts['muted']} of them when they could not reply; {facts['unlinked']} more did not get in at first; {done_untold} mutations done and not told"),
        ("proxies", ", ".join(f"{n} {fault}" for fault, n in facts["faults"].most_common())),
    ]
    for name, value in rows:
        print(f"{name:<16} {value}")
    late = max((call.ended - call.began for call in calls if call.ended), default=0.0)
    print(f"{'ended within':<16} {late:.1f} s at most; {DEADLINE_SECONDS + ROUND_TRIP_SECONDS:.0f} allowed")
    for what, which in sorted(wrong.items()):
        print(f"benches/chaos: FAILED: {len(which)} calls: {what}")
        for line in which[:SHOWN]:
            print(f"    {line}")
