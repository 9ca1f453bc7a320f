"""What it costs that members come and go.

    python -m benchmarks.elastic [--rounds 5] [--only handover,churn,past]

Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import sys
import time

import uvloop

from benchmarks.elastic import churn, past
from benchmarks.elastic.handover import hand_over
from benchmarks.mesh.__main__ import Bars
from thence.telemetry.logs import start_logs

PARTS = ("handover", "churn", "past")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of the hand-over")
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", default=churn.SIZES, help="of the churn")
    options = parser.parse_args()
    parts = options.only.split(",")
    bars, start = Bars(), time.monotonic()
    if "handover" in parts:
        hand_over(bars, options.rounds)
    start_logs("error")  # that connections of members who left are closed is no news here
    if "churn" in parts:
        uvloop.run(churn.measure(tuple(options.sizes), bars))
    if "past" in parts:
        uvloop.run(past.measure(bars))
    print(f"{time.monotonic() - start:.0f} s")
    if bars.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
