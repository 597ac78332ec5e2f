"""The team of threads, in LLVM: work is handed over in about a microsecond, and Python takes no part in it.

A job is a slot: whoever calls takes a free one, or works alone where none is. Its tag holds an epoch, the seats left
for helpers and the next grain; a seat, then grains, are taken by compare-and-swap, so that a thread that comes late
finds another epoch and leaves. Who takes grains takes a share of those that are left, so that takes are few and the
last are small: 12 heads of attention in eight equal turns, of one head and of two, took two threads as long as 14. The
caller works along and returns when every grain is done: it waits for grains that others have taken, never for threads
that have not come. Idle threads watch the bell for some microseconds, then sleep on it; who wakes wakes two more.
Threads that are woken are kept off the caller's core: where the system sees cores as far from each other, as in many
virtual machines, it woke them there, and both took turns on one (a GPT-2 step after a pause of 0.1 s: 12 ms or 24, by
chance).

State, in bytes: bell 0, sleepers 64, stop 72, threads there 80, dispatches before more are asked for 88, address of the
number of threads 96, pauses before a sleep 104, syscall 112, its number for a futex 120, PyEval_SaveThread 128,
PyEval_RestoreThread 136, PyObject_CallNoArgs 144, what makes more threads 152, the core that threads keep off 160 (one
more than its number), numbered threads 168, bytes of work missed 176; slots of 128 bytes from 256 on, then the threads'
numbers. A slot: tag 0, taken 8, kernel 16, words 24, units 32, grains 40, what those left are divided by 48, done 64,
caller sleeps 72, smallest status 80.
"""

from __future__ import annotations

from anydml.engines.cpu.build import COUNT
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.kernels.team_jobs import JOBS
from anydml.engines.cpu.kernels.team_threads import CALLS, THREADS

SLOTS = 8
NUMBERED = 64
"""Threads of which the system's numbers are kept; those beyond are left where the system puts them."""
_NUMBERS = 256 + 128 * SLOTS
STATE_BYTES = _NUMBERS + 8 * NUMBERED
CHUNK = 128 * 1024
"""The least bytes of work for which a thread is woken."""
PART = 32 * 1024
"""The least bytes of work for a thread that is awake: about 3 us, where to hand it over takes 0.7 (a Neoverse-N1)."""
GRAIN = 32 * 1024
"""The least bytes of work that are taken at once."""
GRAINS = 64
"""The most grains for each thread."""
SHARES = 2
"""A thread takes so many parts less than its share of what is left: one that is held up leaves them to the others."""
MISSED = 1024 * 1024
"""Bytes of work, each time too little to wake a thread for, after which one is woken: to do so takes about 5 us."""
BRIEF = 128 * 1024
"""Bytes up to which Python's lock is kept: a few microseconds."""
PAUSES = 5000
"""About 50 us on an Arm Neoverse-N1, and 200 on a Xeon of today, where threads take longer to wake: MobileNet-v2 after
a rest of 0.1 s takes 16 threads 5.0 ms with 1,000, and 3.9 with 20,000."""

_TEXT = """
{declare_pause}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
@state = global [{state_words} x i64] zeroinitializer, align 128

; How many threads take part: those that are awake for less work than those to be woken. Who sleeps is woken by much
; work, or by so much of little that nobody shared.
define internal i64 @seats(i64 %units, i64 %size, i64 %threads) {{
entry:
  %small = udiv i64 %size, {part}
  %large = udiv i64 %size, {chunk}
  %small_units = call i64 @llvm.umin.i64(i64 %small, i64 %units)
  %large_units = call i64 @llvm.umin.i64(i64 %large, i64 %units)
  %most_small = call i64 @llvm.umin.i64(i64 %small_units, i64 %threads)
  %most_large = call i64 @llvm.umin.i64(i64 %large_units, i64 %threads)
  %awake = call i64 @awake()
  %present = add i64 %awake, 1
  %now = call i64 @llvm.umin.i64(i64 %most_small, i64 %present)
  %seats = call i64 @llvm.umax.i64(i64 %now, i64 %most_large)
  %alone = icmp ult i64 %seats, 2
  %could = icmp ugt i64 %most_small, 1
  %missed = and i1 %alone, %could
  br i1 %missed, label %miss, label %out
miss:
  %missed_at = getelementptr i8, ptr @state, i64 176
  %before = load atomic i64, ptr %missed_at monotonic, align 8
  %after = add i64 %before, %size
  %enough = icmp ugt i64 %after, {missed}
  %kept = select i1 %enough, i64 0, i64 %after
  store atomic i64 %kept, ptr %missed_at monotonic, align 8
  %woken = select i1 %enough, i64 2, i64 1
  ret i64 %woken
out:
  ret i64 %seats
}}

; A kernel's work by so many threads.
define internal i64 @run(i64 %address, i64 %seats) {{
entry:
  %words = inttoptr i64 %address to ptr
  %units = load i64, ptr %words
  %kernel_at = getelementptr i8, ptr %words, i64 24
  %kernel = load ptr, ptr %kernel_at
  %several = icmp ugt i64 %seats, 1
  br i1 %several, label %many, label %one
one:
  %alone = call i64 %kernel(i64 %address, i64 0, i64 %units)
  ret i64 %alone
many:
  %size_at = getelementptr i8, ptr %words, i64 32
  %size = load i64, ptr %size_at
  %by_size = udiv i64 %size, {grain}
  %by_units = call i64 @llvm.umin.i64(i64 %by_size, i64 %units)
  %by_seats = mul i64 %seats, {grains}
  %by_threads = call i64 @llvm.umin.i64(i64 %by_seats, i64 {most_grains})
  %grains = call i64 @llvm.umin.i64(i64 %by_units, i64 %by_threads)
  %shared = call i64 @share(ptr %kernel, i64 %address, i64 %units, i64 %grains, i64 %seats)
  ret i64 %shared
}}

; What a kernel calls for another, given its words: the threads that are there help.
define i64 @divide(i64 %address) {{
entry:
  %words = inttoptr i64 %address to ptr
  %units = load i64, ptr %words
  %size_at = getelementptr i8, ptr %words, i64 32
  %size = load i64, ptr %size_at
  %cell_at = getelementptr i8, ptr @state, i64 96
  %cell = load ptr, ptr %cell_at
  %threads = load atomic i64, ptr %cell monotonic, align 8
  %there_at = getelementptr i8, ptr @state, i64 80
  %there = load atomic i64, ptr %there_at monotonic, align 8
  %all = add i64 %there, 1
  %most = call i64 @llvm.umin.i64(i64 %all, i64 %threads)
  %seats = call i64 @seats(i64 %units, i64 %size, i64 %most)
  %status = call i64 @run(i64 %address, i64 %seats)
  ret i64 %status
}}

; What Python calls, its lock held: the words lie in a bytes object, `self`. None is returned, or False for a status.
define ptr @kernel(ptr %self, ptr %unused) {{
entry:
  %words = getelementptr i8, ptr %self, i64 {offset}
  %address = ptrtoint ptr %words to i64
  %units = load i64, ptr %words
  %size_at = getelementptr i8, ptr %words, i64 32
  %size = load i64, ptr %size_at
  %cell_at = getelementptr i8, ptr @state, i64 96
  %cell = load ptr, ptr %cell_at
  %threads = load atomic i64, ptr %cell monotonic, align 8
  %seats = call i64 @seats(i64 %units, i64 %size, i64 %threads)
  %there_at = getelementptr i8, ptr @state, i64 80
  %there = load atomic i64, ptr %there_at monotonic, align 8
  %wanted = add i64 %there, 1
  %short = icmp ult i64 %wanted, %seats
  br i1 %short, label %ask, label %go
ask: ; for more threads, though not each time where there are none to be had
  %patience_at = getelementptr i8, ptr @state, i64 88
  %patience = atomicrmw sub ptr %patience_at, i64 1 monotonic
  %now = icmp slt i64 %patience, 1
  br i1 %now, label %grow, label %go
grow:
  %call_at = getelementptr i8, ptr @state, i64 144
  %call = load ptr, ptr %call_at
  %more_at = getelementptr i8, ptr @state, i64 152
  %more = load ptr, ptr %more_at
  %answer = call ptr %call(ptr %more)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %go
error:
  ret ptr null
go:
  %is_brief = icmp ule i64 %size, {brief}
  br i1 %is_brief, label %brief, label %long
brief:
  %soon = call i64 @run(i64 %address, i64 %seats)
  br label %tell
long:
  %save_at = getelementptr i8, ptr @state, i64 128
  %save = load ptr, ptr %save_at
  %restore_at = getelementptr i8, ptr @state, i64 136
  %restore = load ptr, ptr %restore_at
  %held = call ptr %save()
  %late = call i64 @run(i64 %address, i64 %seats)
  call void %restore(ptr %held)
  br label %tell
tell:
  %status = phi i64 [ %soon, %brief ], [ %late, %long ]
  %bad = icmp ne i64 %status, 0
  %which = select i1 %bad, i64 16, i64 8
  %place = getelementptr i8, ptr %words, i64 %which
  %result = load ptr, ptr %place
  {count}
  ret ptr %result
}}
"""


def make_team() -> str:
    """The team's text for this kind of CPU."""
    declare, pause = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
    if IS_ARM:
        declare, pause = ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)")
    return (_TEXT + JOBS + THREADS).format(
        declare_pause=declare,
        pause=pause,
        state_words=STATE_BYTES // 8,
        offset=bytes.__basicsize__ - 1,
        chunk=CHUNK,
        part=PART,
        grain=GRAIN,
        grains=GRAINS,
        most_grains=65_534,
        shares=SHARES,
        brief=BRIEF,
        missed=MISSED,
        numbered=NUMBERED,
        numbers=_NUMBERS,
        **CALLS,
        count=COUNT,
    )
