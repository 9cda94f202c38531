"""Gathers the rows of all suites: one summary, one JSON file, one plot. Called by ./bench."""
import argparse
import html
import json
import math
import os
import sys

# The plot, in pixels: a line a row, names to the left, bars to the right.
LINE, TOP, LEFT, WIDTH, RIGHT = 18, 64, 300, 480, 180
# How far the axis reaches to either side of a limit: 32 times worse, 1,024 times better.
WORSE, BETTER = 5, 10


def shown(part):
    if part is None:
        return "–"
    digits = 2 if abs(part["value"]) < 100 else 0
    space = "" if part["unit"] == "×" else " "
    return f"{part['value']:.{digits}f}{space}{part['unit']}"


def limit_of(row):
    limit = row["limit"]
    if limit is None:
        return "–"
    kind, sign = ("atMost", "≤") if "atMost" in limit else ("atLeast", "≥")
    return f"{sign} {shown({'value': limit[kind], 'unit': limit['unit']})}"


def headroom(row):
    """How many times better than its limit a row is; below 1 it is missed."""
    limit, figure = row["limit"], row["figure"]
    if limit is None or figure is None or figure["value"] <= 0:
        return None
    if "atMost" in limit:
        return limit["atMost"] / figure["value"]
    return figure["value"] / limit["atLeast"]


def plot(rows, smoke):
    drawn = [(row, headroom(row)) for row in rows]
    drawn = [(row, room) for row, room in drawn if room is not None]
    height = TOP + LINE * len(drawn) + 24
    scale = WIDTH / (WORSE + BETTER)
    place = lambda room: LEFT + scale * (WORSE + max(-WORSE, min(BETTER, math.log2(room))))
    at_limit = place(1)
    title = "How far each row is from its limit" + (" (smoke run)" if smoke else "")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<style>text{fill:#222}.axis{stroke:#bbb}.limit{stroke:#222;stroke-width:1.5}.met{fill:#2a7f62}'
        '.missed{fill:#c0392b}@media(prefers-color-scheme:dark){text{fill:#ddd}.limit{stroke:#ddd}.axis{stroke:#555}}</style>',
        f'<text x="12" y="24" font-size="15">{title}</text>',
        f'<text x="12" y="42">to the right of the line: so many times better than promised</text>',
    ]
    for power in range(-WORSE + 1, BETTER + 1, 2):
        x = place(2.0 ** power)
        label = f"{2 ** power}×" if power >= 0 else f"1/{2 ** -power}"
        lines.append(f'<line class="axis" x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{height - 20}"/>'
                     f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle" font-size="10">{label}</text>')
    for number, (row, room) in enumerate(drawn):
        y, x = TOP + LINE * number, place(room)
        kind = "met" if room >= 1 else "missed"
        lines.append(
            f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{html.escape(row["what"])}</text>'
            f'<rect class="{kind}" x="{min(x, at_limit):.1f}" y="{y + 3}" width="{max(1, abs(x - at_limit)):.1f}" height="{LINE - 6}"/>'
            f'<text x="{LEFT + WIDTH + 8}" y="{y + 12}">{shown(row["figure"])} ({limit_of(row)})</text>')
    lines.append(f'<line class="limit" x1="{at_limit:.1f}" y1="{TOP - 4}" x2="{at_limit:.1f}" y2="{height - 20}"/></svg>')
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True)
    parser.add_argument("--svg", required=True)
    parser.add_argument("gathered")
    parser.add_argument("suites", nargs="+")
    args = parser.parse_args()
    rows, smoke = [], False
    for suite in args.suites:
        file = os.path.join(args.gathered, f"{suite}.json")
        if not os.path.exists(file):
            continue
        with open(file) as text:
            told = json.load(text)
        smoke = smoke or told["smoke"]
        rows += [{"suite": suite, **row} for row in told["rows"]]
    if not rows and args.suites != ["times"]:
        sys.exit("problem: no row has such a name\nhint: ./bench --help names the suites")
    with open(args.json, "w") as file:
        json.dump({"smoke": smoke, "rows": rows}, file, indent=1, ensure_ascii=False)
    with open(args.svg, "w") as file:
        file.write(plot(rows, smoke))
    missed = [row for row in rows if row["verdict"] == "missed"]
    print(f"\n{len(rows)} rows, {len(missed)} missed{' (a smoke run decides on none)' if smoke else ''}; plot: {os.path.relpath(args.svg)}")
    for row in [] if smoke else missed:
        print(f"missed: {row['suite']}: {row['what']}: {shown(row['figure'])} of {limit_of(row)} {row['note']}".rstrip())


main()
