"""The thread team, in LLVM IR: how a job is offered, its grains taken and counted, how threads wait, wake and are kept
off the caller's core. Work is handed over in about a microsecond, and Python takes no part in it.

A job is a slot: whoever calls takes a free one, or works alone where none is. Its tag holds an epoch, the seats left
for helpers and the next grain; a seat, then grains, are taken by compare-and-swap, so that a thread that comes late
finds another epoch and leaves. Who takes grains takes a share of those that are left, so that takes are few and the
last are small: 12 heads of attention in eight equal turns, of one head and of two, took two threads as long as 14.
The caller works along and returns when every grain is done: it waits for grains that others have taken, never for
threads that have not come. Idle threads watch the bell for some microseconds, then sleep on it; who wakes wakes two
more. Threads that are woken are kept off the caller's core: where the system sees cores as far from each other, as in
many virtual machines, it woke them there, and both took turns on one (a GPT-2 step after a pause of 0.1 s: 12 ms or
24, by chance).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.function import Function, link
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.launch.record import BYTES_HEAD, CALL, WORD, Layout, Table, count_reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cpu.codegen.function import Operand, Value

SLOTS = 8
NUMBERED = 64
"""Threads of which the system's numbers are kept; those beyond are left where the system puts them."""
MOST_GRAINS = 65_534
SLOT = "tag taken kernel words units grains divisor _7 done sleeps status _11 _12 _13 _14 _15"
"""Of a job: its tag, whether somebody has the slot, the kernel with its words and units, the grains that those are cut
into and what the grains left are divided by; how many are done, whether the caller sleeps, the smallest status."""
STATE = Layout(
    "bell", Table("_bell", 1, "_1 _2 _3 _4 _5 _6 _7", ""), "sleepers", "stop", "there", "patience", "threads", "pauses",
    "syscall", "futex", "save", "restore", "call", "more", "core", "numbered", "missed", Table("_rest", 9, "_", ""),
    Table("slots", SLOTS, SLOT, ""), Table("numbers", NUMBERED, "number", ""), header=0,
)  # fmt: skip
"""Of the team: the bell, on a line of its own; the threads that sleep, whether all are to stop, how many there are,
dispatches before more are asked for, the address of the number wanted, and pauses before a sleep. The system's
syscall, its number for a futex, PyEval_SaveThread, PyEval_RestoreThread, PyObject_CallNoArgs and what makes more
threads. The core that threads keep off, one more than its number; how many have numbers, and bytes of work missed."""
STATE_BYTES = WORD * STATE.end
JOB = Layout("next", "units", "step", "kernel", "words", "status", "set_type", "post", "over", header=0)
"""Of work that may be cancelled: the next unit, the units, those taken at once, the kernel, its words, the smallest
status, pthread_setcanceltype, sem_post, and the semaphore that a thread posts at its end."""
_NAMES = ("get_cpu", "get_cores", "set_cores", "get_number")
_CALL_NUMBERS = {True: (168, 123, 122, 178), False: (309, 204, 203, 186)}
CALLS = dict(zip(_NAMES, _CALL_NUMBERS[IS_ARM], strict=True))
"""The numbers of getcpu, sched_getaffinity, sched_setaffinity and gettid, on an Arm and on an x86."""
_WAIT, _WAKE = 128, 129
"""What a futex is asked for, by threads of this process alone."""
_slot = STATE.rows["slots"]


def make_team() -> str:
    """The team's text for this kind of CPU."""
    state = f"@state = global [{STATE.end} x i64] zeroinitializer, align 128"
    parts = (_futex, _wake, _awake, _part, _work, _share, _seats, _run, _divide, _entry, _worker, _cancellable, _halt)
    return link(state, *(part() for part in parts))


class _Internal(Function):
    """A function that others of the text alone call."""

    def define(self, head: str) -> str:
        """The whole text."""
        return super().define(f"internal {head}")


def _at(f: Function, name: str) -> Value:
    return f.value("@state", "ptr") + STATE.at(name)


def _read(f: Function, name: str, order: str = "monotonic") -> Value:
    return f.load("i64", _at(f, name), atomic=order)


def _call(f: Function, *args: Operand) -> Value:
    """A call of the system, by its number."""
    given = ", ".join(f.value(arg, "i64").typed for arg in args)
    return f.made("i64", f"call i64 (i64, ...) {f.load('ptr', _at(f, 'syscall'))}({given})")


def _least(f: Function, *values: Value) -> Value:
    """The smallest of unsigned numbers."""
    least, *rest = values
    for value in rest:
        least = f.overloaded("umin", least, value)
    return least


def _watch(f: Function, place: Value, order: str, is_over: Callable[[Value], Value]) -> Value:
    """Look at 32 bits for a while, until they are as they should be; what they were at last."""
    pauses, looks, seen = _read(f, "pauses"), [f.value(0, "i64")], [f.value(0, "i32")]
    with f.forever(carry=(looks, seen)):
        seen[0] = f.load("i32", place, atomic=order)
        f.leave_if(is_over(seen[0]))
        looks[0] += 1
        f.leave_if(f.compare("ugt", looks[0], pauses))
        f.pause()
    return seen[0]


# Sleeping and waking


def _futex() -> str:
    f = _Internal("futex", "place:ptr what value", "i64")
    place, what, value = f.args
    return f.end(_call(f, f.load("i64", _at(f, "futex")), place, what, value, 0, 0, 0))


def _wake() -> str:
    """Wake some of those who sleep at a place."""
    f = _Internal("wake", "place:ptr count")
    f.invoke("@futex", f.args[0], _WAKE, f.args[1], result="i64")
    return f.end()


def _awake() -> str:
    """The threads that do not sleep, at work or not."""
    f = _Internal("awake", "", "i64")
    return f.end(f.max(_read(f, "there") - _read(f, "sleepers", "seq_cst"), 0))


def _part() -> str:
    """Keep the threads off the core that this is called on, where they do not yet. What fails leaves them there."""
    f = _Internal("part")
    cpu_at, mask = f.stack("i32", align=4), f.stack("i8", 128, align=8)
    with f.when(_read(f, "pauses").ne(0)):  # or there are more threads than cores
        failed = _call(f, CALLS["get_cpu"], cpu_at, 0, 0)
        cpu = f.cast("zext", f.load("i32", cpu_at), "i64")
        is_new = _read(f, "core").ne(cpu + 1)
        with f.when(failed.eq(0) & f.compare("ult", cpu, 1024) & is_new):
            size = _call(f, CALLS["get_cores"], 0, 128, mask)
            with f.when(size > 0):
                f.store(cpu + 1, _at(f, "core"), atomic="monotonic")
                byte, bit = mask + (cpu >> 3), f.value(1, "i8") << f.cast("trunc", cpu & 7, "i8")
                f.store(f.load("i8", byte) & ~bit, byte)
                numbered = _least(f, _read(f, "numbered", "acquire"), f.value(NUMBERED, "i64"))
                with f.loop(0, numbered) as k:
                    number = f.load("i64", _at(f, "numbers") + k * WORD, atomic="monotonic")
                    with f.when(number.ne(0)):  # one is counted before it is entered: the system takes 0 for the caller
                        _call(f, CALLS["set_cores"], number, size, mask)
    return f.end()


# Jobs


def _work() -> str:
    """Grains of a job, share by share; the smallest status other than 0 is kept."""
    f = _Internal("work", "slot:ptr epoch")
    slot, epoch = f.args
    with f.forever():
        tag = f.load("i64", slot, atomic="acquire")
        f.leave_if((tag >> 32).ne(epoch))
        names = ("kernel", "words", "units", "grains", "divisor")
        # Valid where the tag is the same when grains are taken.
        kernel, words, units, grains, divisor = (
            f.load("i64", slot + _slot.at(name), atomic="monotonic") for name in names
        )
        first = tag & 65535
        f.leave_if(f.compare("uge", first, grains))
        count = f.overloaded("umax", (grains - first) // divisor, f.value(1, "i64"))
        with f.when(f.compare_exchange(slot, tag, tag + count, "acq_rel acquire")):
            begin, end = units * first // grains, units * (first + count) // grains
            status = f.invoke(kernel, words, begin, end, result="i64")
            with f.when(status.ne(0)):
                f.atomic_update("umin", slot + _slot.at("status"), status, "monotonic")
            more, done = f.cast("trunc", count, "i32"), slot + _slot.at("done")
            so_far, sleeps = f.atomic_update("add", done, more) + more, slot + _slot.at("sleeps")
            is_last = so_far.eq(f.cast("trunc", grains, "i32"))
            with f.when(is_last), f.when(f.load("i64", sleeps, atomic="seq_cst").ne(0)):
                f.invoke("@wake", done, 1)
    return f.end()


def _share() -> str:
    """A job in a slot that is free, for so many threads; alone where none is."""
    f = _Internal("share", "kernel words units grains seats", "i64")
    kernel, words, units, grains, seats = f.args
    found = [_at(f, "slots")]
    with f.forever(carry=found):
        f.leave_if(f.compare_exchange(found[0] + _slot.at("taken"), 0, 1, "acq_rel monotonic"))
        found[0] += WORD * _slot.end
        with f.when(f.compare("uge", found[0], _at(f, "numbers"))):
            f.ret(f.invoke(kernel, words, 0, units, result="i64"))
    slot, done = found[0], found[0] + _slot.at("done")
    # An epoch without grains lies between two jobs: nobody takes one of the one by the words of the other.
    last = f.load("i64", slot, atomic="acquire") >> 32
    f.atomic_update("xchg", slot, (last + 1 << 32) | 65535)
    fields: dict[str, Operand] = {"kernel": kernel, "words": words, "units": units, "grains": grains}
    fields |= {"divisor": seats * figures().threads.shares, "done": f.value(0, "i32"), "sleeps": 0, "status": -1}
    for name, value in fields.items():
        f.store(value, slot + _slot.at(name), atomic="monotonic")
    epoch, helpers = (last + 2) & 0xFFFFFFFF, seats - 1
    f.store((epoch << 32) | (helpers << 16), slot, atomic="release")
    f.atomic_update("add", _at(f, "bell"), f.value(1, "i32"))
    with f.when(f.compare("ugt", helpers, f.invoke("@awake", result="i64"))):
        f.invoke("@part")
        f.invoke("@wake", _at(f, "bell"), f.select(f.compare("ult", helpers, 2), 1, 2))
    f.invoke("@work", slot, epoch)
    f.atomic_update("and", slot, ~(65535 << 16))
    every = f.cast("trunc", grains, "i32")
    with f.when(_watch(f, done, "seq_cst", lambda seen: seen.eq(every)).ne(every)), f.forever():
        f.store(1, slot + _slot.at("sleeps"), atomic="seq_cst")
        seen = f.load("i32", done, atomic="seq_cst")
        f.leave_if(seen.eq(every))
        f.invoke("@futex", done, _WAIT, f.cast("zext", seen, "i64"), result="i64")
    worst = f.load("i64", slot + _slot.at("status"), atomic="acquire")
    f.store(0, slot + _slot.at("taken"), atomic="release")
    return f.end(f.select(worst.eq(-1), 0, worst))


# Dispatches


def _seats() -> str:
    """How many threads take part: those that are awake for less work than those to be woken. Who sleeps is woken by
    much work, or by so much of little that nobody shared.
    """
    f, of = _Internal("seats", "units size threads", "i64"), figures().threads
    units, size, threads = f.args
    small, large = (_least(f, size // work, units, threads) for work in (of.part, of.chunk))
    present = f.invoke("@awake", result="i64") + 1
    seats = f.overloaded("umax", _least(f, small, present), large)
    with f.when(f.compare("ult", seats, 2) & f.compare("ugt", small, 1)):
        missed = _read(f, "missed") + size
        is_enough = f.compare("ugt", missed, of.missed)
        f.store(f.select(is_enough, 0, missed), _at(f, "missed"), atomic="monotonic")
        f.ret(f.select(is_enough, 2, 1))
    return f.end(seats)


def _run() -> str:
    """A kernel's work by so many threads."""
    f, of = _Internal("run", "words seats", "i64"), figures().threads
    words, seats = f.args
    call = CALL.loaded(f, words, "units", "kernel", "size")
    with f.when(f.compare("ule", seats, 1)):
        f.ret(f.invoke(call.kernel, words, 0, call.units, result="i64"))
    grains = _least(f, call.size // of.grain, call.units, seats * of.grains, f.value(MOST_GRAINS, "i64"))
    return f.end(f.invoke("@share", call.kernel, words, call.units, grains, seats, result="i64"))


def _divide() -> str:
    """What a kernel calls for another, given its words: the threads that are there help."""
    f = Function("divide", "words", "i64")
    (words,) = f.args
    call = CALL.loaded(f, words, "units", "size")
    wanted = f.load("i64", f.load("ptr", _at(f, "threads")), atomic="monotonic")
    most = _least(f, _read(f, "there") + 1, wanted)
    seats = f.invoke("@seats", call.units, call.size, most, result="i64")
    return f.end(f.invoke("@run", words, seats, result="i64"))


def _entry() -> str:
    """What Python calls, its lock held: the words lie in a bytes object, `self`. None is returned, or False for a
    status.
    """
    f = Function("kernel", "self:ptr unused:ptr", "ptr")
    place = f.args[0] + BYTES_HEAD
    words, call = f.address(place), CALL.loaded(f, place, "units", "size")
    wanted = f.load("i64", f.load("ptr", _at(f, "threads")), atomic="monotonic")
    seats = f.invoke("@seats", call.units, call.size, wanted, result="i64")
    are_few, patience = f.compare("ult", _read(f, "there") + 1, seats), _at(f, "patience")
    # More threads are asked for, though not each time where there are none to be had.
    with f.when(are_few), f.when(f.atomic_update("sub", patience, 1, "monotonic") < 1):
        asked, more = (f.load("ptr", _at(f, name)) for name in ("call", "more"))
        with f.when(f.invoke(asked, more, result="ptr").eq(0)):
            f.ret(0)
    status = [f.value(0, "i64")]
    with f.either(f.compare("ule", call.size, figures().threads.brief), carry=status) as (brief, long):
        with brief:
            status[0] = f.invoke("@run", words, seats, result="i64")
        with long:
            save, restore = (f.load("ptr", _at(f, name)) for name in ("save", "restore"))
            held = f.invoke(save, result="ptr")
            status[0] = f.invoke("@run", words, seats, result="i64")
            f.invoke(restore, held)
    result = f.load("ptr", place + f.select(status[0].ne(0), CALL.at("false"), CALL.at("none")))
    count_reference(f, result, 1)
    return f.end(result)


# Threads


def _worker() -> str:
    """A thread of the team, from its start to its end."""
    f = Function("worker", "unused:ptr", "ptr")
    own, k = _call(f, CALLS["get_number"]), f.atomic_update("add", _at(f, "numbered"), 1)
    with f.when(f.compare("ult", k, NUMBERED)):  # whoever calls next moves this one too
        f.store(own, _at(f, "numbers") + k * WORD, atomic="release")
        f.store(0, _at(f, "core"), atomic="seq_cst")
    with f.forever():
        bell = f.load("i32", _at(f, "bell"), atomic="seq_cst")
        f.leave_if(_read(f, "stop", "seq_cst").ne(0))
        seat = {"slot": _at(f, "slots"), "tag": f.value(0, "i64"), "is_taken": f.value(0, "i1")}
        with f.forever(carry=seat):
            seat["tag"] = tag = f.load("i64", seat["slot"], atomic="acquire")
            with f.either((tag >> 16 & 65535).ne(0), carry=seat) as (free, full):
                with free:
                    seat["is_taken"] = f.compare_exchange(seat["slot"], tag, tag - 65536, "acq_rel acquire")
                with full:
                    seat["slot"] += WORD * _slot.end
            f.leave_if(seat["is_taken"] | f.compare("uge", seat["slot"], _at(f, "numbers")))
        with f.either(seat["is_taken"]) as (joins, idles):
            with joins:
                # Whoever sleeps is woken by those who woke: this one is among the seats and among the awake.
                with f.when(f.compare("ugt", seat["tag"] >> 16 & 65535, f.invoke("@awake", result="i64"))):
                    f.invoke("@wake", _at(f, "bell"), 2)
                f.invoke("@work", seat["slot"], seat["tag"] >> 32)
            with idles, f.when(_watch(f, _at(f, "bell"), "monotonic", lambda seen: seen.ne(bell)).eq(bell)):
                f.atomic_update("add", _at(f, "sleepers"), 1)
                f.invoke("@futex", _at(f, "bell"), _WAIT, f.cast("zext", bell, "i64"), result="i64")
                f.atomic_update("sub", _at(f, "sleepers"), 1)
    return f.end(0)


def _cancellable() -> str:
    """Units of work that a thread of their own does, and may be cancelled in at any instruction."""
    f = Function("cancellable", "job:ptr", "ptr")
    (at,) = f.args
    job, before = JOB.loaded(f, at, "units", "step", "kernel", "words", "set_type", "post", "over"), f.stack("i32")
    f.invoke(job.set_type, f.value(1, "i32"), before, result="i32")
    with f.forever():
        begin = f.atomic_update("add", at + JOB.at("next"), job.step, "monotonic")
        f.leave_if(f.compare("uge", begin, job.units))
        end = _least(f, begin + job.step, job.units)
        status = f.invoke(job.kernel, job.words, begin, end, result="i64")
        with f.when(status.ne(0)):
            f.atomic_update("umin", at + JOB.at("status"), status, "monotonic")
    f.invoke(job.set_type, f.value(0, "i32"), before, result="i32")  # the system's own end of it is not to be cancelled
    f.invoke(job.post, job.over, result="i32")
    return f.end(0)


def _halt() -> str:
    """Tell every thread to end."""
    f = Function("halt")
    f.store(1, _at(f, "stop"), atomic="seq_cst")
    f.atomic_update("add", _at(f, "bell"), f.value(1, "i32"))
    f.invoke("@wake", _at(f, "bell"), 2**30)
    return f.end()
