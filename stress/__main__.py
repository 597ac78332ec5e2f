"""Does random work by every door, from many threads and processes, under every pressure, and tells what goes wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (1800)")
    parser.add_argument("--seed", type=int, help="of every item; the time, where it is not given")
    parser.add_argument("--item", type=int, help="do this item of the seed alone: one thread, no pressure")
    parser.add_argument("--engine", default="cpu", help="with --item: the engine that it is done on (cpu)")
    parser.add_argument("--threads", type=int, default=8, help="threads of a worker (8)")
    parser.add_argument("--workers", type=int, default=2, help="processes that do random items (2)")
    parser.add_argument("--roles", default="", help="these children alone, with commas: random,steady,limited,spoiled,odd,webgpu")  # fmt: skip
    parser.add_argument("--role", help=argparse.SUPPRESS)  # of a child
    parser.add_argument("--log", default="/dev/null", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ.setdefault("ANYDML_CHECK_BOUNDS", "1")  # of the children too: whatever they compile is proved
    if sys.platform == "win32":
        sys.exit("the stress test needs signals and forks, which Windows has not")
    if options.seed is None:
        options.seed = int(time.time()) % 1_000_000
    if options.item is not None:
        os.environ["ANYDML_STRESS_ENGINE"] = options.engine
        return one(options.seed, options.item)
    if options.role:
        child(options)
        return 0
    from stress.parent import ROLES, Parent
    from stress.report import Report

    roles = tuple(options.roles.split(",")) if options.roles else ROLES
    if unknown := set(roles) - set(ROLES):
        parser.error(f"--roles: there is no {', '.join(sorted(unknown))}; there are {', '.join(ROLES)}")
    report = Report(options.seed)
    try:
        Parent(report, options.seconds, options.threads, options.workers, roles).run()
    except KeyboardInterrupt:
        report.note("interrupted")
    return report.summary()


def child(options: argparse.Namespace) -> None:
    from stress.conditions import CONDITIONS
    from stress.worker import STEADY_ITEMS, Worker

    steady = STEADY_ITEMS if options.role == "steady" else 0
    made = CONDITIONS.get(options.role, Worker)
    made(options.seed, options.start, options.seconds, options.threads, options.log, steady=steady).run()


def one(seed: int, number: int) -> int:
    from stress import items

    work = items.make(seed, number)
    print(f"{work.door}: {work.about}")
    try:
        said = work.judge()
    except Exception:  # noqa: BLE001 - it is shown
        said = traceback.format_exc()
    print(said or "right")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
