"""The thread team, in LLVM IR: how grains of a job are taken and counted, how a job is offered and waited for, how
threads wait, wake and are pinned.
"""

from __future__ import annotations

from anydml.engines.cpu.build import COUNT
from anydml.engines.cpu.features import IS_ARM

# The jobs of a team, in LLVM: how grains are taken and counted, and how a job is offered and waited for.
#
# The state's places are as told above `make_team`, at the end of this file.


_PLACES = """\
  %kernel_at = getelementptr i8, ptr %slot, i64 16
  %words_at = getelementptr i8, ptr %slot, i64 24
  %units_at = getelementptr i8, ptr %slot, i64 32
  %grains_at = getelementptr i8, ptr %slot, i64 40
  %divisor_at = getelementptr i8, ptr %slot, i64 48
  %done_at = getelementptr i8, ptr %slot, i64 64
  %sleeps_at = getelementptr i8, ptr %slot, i64 72
  %status_at = getelementptr i8, ptr %slot, i64 80
"""
"""Of a job, from its slot on."""

JOBS = (
    """
; Grains of a job, share by share; the smallest status other than 0 is kept.
define internal void @work(i64 %at, i64 %epoch) {{
entry:
  %slot = getelementptr i8, ptr @state, i64 %at
"""
    + _PLACES
    + """  br label %look
look:
  %tag = load atomic i64, ptr %slot acquire, align 8
  %now = lshr i64 %tag, 32
  %same = icmp eq i64 %now, %epoch
  br i1 %same, label %read, label %out
read: ; valid where the tag is the same when grains are taken
  %kernel = load atomic ptr, ptr %kernel_at monotonic, align 8
  %words = load atomic i64, ptr %words_at monotonic, align 8
  %units = load atomic i64, ptr %units_at monotonic, align 8
  %grains = load atomic i64, ptr %grains_at monotonic, align 8
  %divisor = load atomic i64, ptr %divisor_at monotonic, align 8
  %first = and i64 %tag, 65535
  %some = icmp ult i64 %first, %grains
  br i1 %some, label %take, label %out
take:
  %left = sub i64 %grains, %first
  %share = udiv i64 %left, %divisor
  %count = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %next = add i64 %tag, %count
  %swap = cmpxchg ptr %slot, i64 %tag, i64 %next acq_rel acquire
  %taken = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %taken, label %run, label %look
run:
  %low = mul i64 %units, %first
  %begin = udiv i64 %low, %grains
  %after = add i64 %first, %count
  %high = mul i64 %units, %after
  %end = udiv i64 %high, %grains
  %status = call i64 %kernel(i64 %words, i64 %begin, i64 %end)
  %fine = icmp eq i64 %status, 0
  br i1 %fine, label %add, label %note
note:
  %worst = atomicrmw umin ptr %status_at, i64 %status monotonic
  br label %add
add:
  %more = trunc i64 %count to i32
  %before = atomicrmw add ptr %done_at, i32 %more seq_cst
  %so_far = add i32 %before, %more
  %all = trunc i64 %grains to i32
  %last = icmp eq i32 %so_far, %all
  br i1 %last, label %tell, label %look
tell:
  %sleeps = load atomic i64, ptr %sleeps_at seq_cst, align 8
  %asleep = icmp ne i64 %sleeps, 0
  br i1 %asleep, label %rouse, label %look
rouse:
  %done = add i64 %at, 64
  call void @wake(i64 %done, i64 1)
  br label %look
out:
  ret void
}}

define internal i64 @share(ptr %kernel, i64 %words, i64 %units, i64 %grains, i64 %seats) {{
entry:
  %pauses_at = getelementptr i8, ptr @state, i64 104
  br label %find
find:
  %at = phi i64 [ 256, %entry ], [ %beyond, %full ]
  %slot = getelementptr i8, ptr @state, i64 %at
  %taken_at = getelementptr i8, ptr %slot, i64 8
  %claim = cmpxchg ptr %taken_at, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %claim, 1
  br i1 %mine, label %open, label %full
full:
  %beyond = add i64 %at, 128
  %more = icmp ult i64 %beyond, {numbers}
  br i1 %more, label %find, label %alone
alone:
  %own = call i64 %kernel(i64 %words, i64 0, i64 %units)
  ret i64 %own
open: ; an epoch without grains lies between two jobs: nobody takes one of the one by the words of the other
  %tag = load atomic i64, ptr %slot acquire, align 8
  %last = lshr i64 %tag, 32
  %between = add i64 %last, 1
  %between_high = shl i64 %between, 32
  %closed = or i64 %between_high, 65535
  %old = atomicrmw xchg ptr %slot, i64 %closed seq_cst
"""
    + _PLACES
    + """  store atomic ptr %kernel, ptr %kernel_at monotonic, align 8
  store atomic i64 %words, ptr %words_at monotonic, align 8
  store atomic i64 %units, ptr %units_at monotonic, align 8
  store atomic i64 %grains, ptr %grains_at monotonic, align 8
  %divisor = mul i64 %seats, {shares}
  store atomic i64 %divisor, ptr %divisor_at monotonic, align 8
  store atomic i32 0, ptr %done_at monotonic, align 4
  store atomic i64 0, ptr %sleeps_at monotonic, align 8
  store atomic i64 -1, ptr %status_at monotonic, align 8
  %epoch_wide = add i64 %last, 2
  %epoch = and i64 %epoch_wide, 4294967295
  %epoch_high = shl i64 %epoch, 32
  %helpers = sub i64 %seats, 1
  %free = shl i64 %helpers, 16
  %fresh = or i64 %epoch_high, %free
  store atomic i64 %fresh, ptr %slot release, align 8
  %rung = atomicrmw add ptr @state, i32 1 seq_cst
  %awake = call i64 @awake()
  %some = icmp ugt i64 %helpers, %awake
  br i1 %some, label %ring, label %work
ring:
  %few = icmp ult i64 %helpers, 2
  %number = select i1 %few, i64 1, i64 2
  call void @part()
  call void @wake(i64 0, i64 %number)
  br label %work
work:
  call void @work(i64 %at, i64 %epoch)
  %unseated = atomicrmw and ptr %slot, i64 -4294901761 seq_cst
  %all = trunc i64 %grains to i32
  %pauses = load atomic i64, ptr %pauses_at monotonic, align 8
  br label %check
check:
  %k = phi i64 [ 0, %work ], [ %k1, %rest ]
  %done = load atomic i32, ptr %done_at seq_cst, align 4
  %over = icmp eq i32 %done, %all
  br i1 %over, label %out, label %wait
wait:
  %k1 = add i64 %k, 1
  %long = icmp ugt i64 %k1, %pauses
  br i1 %long, label %sleep, label %rest
rest:
  {pause}
  br label %check
sleep:
  store atomic i64 1, ptr %sleeps_at seq_cst, align 8
  %seen = load atomic i32, ptr %done_at seq_cst, align 4
  %ended = icmp eq i32 %seen, %all
  br i1 %ended, label %out, label %doze
doze:
  %where = add i64 %at, 64
  %known = zext i32 %seen to i64
  %woken = call i64 @futex(i64 %where, i64 128, i64 %known)
  br label %sleep
out:
  %worst = load atomic i64, ptr %status_at acquire, align 8
  %none = icmp eq i64 %worst, -1
  %status = select i1 %none, i64 0, i64 %worst
  store atomic i64 0, ptr %taken_at release, align 8
  ret i64 %status
}}
"""
)

# The threads of a team, in LLVM: how one waits for work and takes part in it, how they are woken, and on which cores.
#
# The state's places are as told above `make_team`, at the end of this file; `@work`, a job's grains, is in
# the section above.


_NAMES = ("get_cpu", "get_cores", "set_cores", "get_number")
_CALL_NUMBERS = {True: (168, 123, 122, 178), False: (309, 204, 203, 186)}
CALLS = dict(zip(_NAMES, _CALL_NUMBERS[IS_ARM], strict=True))
"""The numbers of getcpu, sched_getaffinity, sched_setaffinity and gettid, on an Arm and on an x86."""

THREADS = """
define internal i64 @futex(i64 %at, i64 %what, i64 %value) {{
  %p = getelementptr i8, ptr @state, i64 112
  %call = load ptr, ptr %p
  %q = getelementptr i8, ptr @state, i64 120
  %number = load i64, ptr %q
  %place = getelementptr i8, ptr @state, i64 %at
  %result = call i64 (i64, ...) %call(i64 %number, ptr %place, i64 %what, i64 %value, i64 0, i64 0, i64 0)
  ret i64 %result
}}

define internal void @wake(i64 %at, i64 %count) {{
  %ignored = call i64 @futex(i64 %at, i64 129, i64 %count)
  ret void
}}

; The threads that do not sleep, at work or not.
define internal i64 @awake() {{
  %there_at = getelementptr i8, ptr @state, i64 80
  %there = load atomic i64, ptr %there_at monotonic, align 8
  %sleepers_at = getelementptr i8, ptr @state, i64 64
  %sleepers = load atomic i64, ptr %sleepers_at seq_cst, align 8
  %awake = sub i64 %there, %sleepers
  %number = call i64 @llvm.smax.i64(i64 %awake, i64 0)
  ret i64 %number
}}
declare i64 @llvm.smax.i64(i64, i64)

; Keep the threads off the core that this is called on, where they do not yet. What fails leaves them where they are.
define internal void @part() {{
entry:
  %cpu_at = alloca i32
  %mask = alloca [128 x i8], align 8
  %pauses_at = getelementptr i8, ptr @state, i64 104
  %kept_at = getelementptr i8, ptr @state, i64 160
  %count_at = getelementptr i8, ptr @state, i64 168
  %call_at = getelementptr i8, ptr @state, i64 112
  %call = load ptr, ptr %call_at
  %pauses = load atomic i64, ptr %pauses_at monotonic, align 8
  %crowded = icmp eq i64 %pauses, 0 ; more threads than cores
  br i1 %crowded, label %out, label %ask
ask:
  %failed = call i64 (i64, ...) %call(i64 {get_cpu}, ptr %cpu_at, i64 0, i64 0)
  %cpu_narrow = load i32, ptr %cpu_at
  %cpu = zext i32 %cpu_narrow to i64
  %one_more = add i64 %cpu, 1
  %kept = load atomic i64, ptr %kept_at monotonic, align 8
  %same = icmp eq i64 %kept, %one_more
  %known = icmp eq i64 %failed, 0
  %few = icmp ult i64 %cpu, 1024
  %fine = and i1 %known, %few
  %skip = xor i1 %fine, true
  %leave = or i1 %skip, %same
  br i1 %leave, label %out, label %own
own:
  %bytes = call i64 (i64, ...) %call(i64 {get_cores}, i64 0, i64 128, ptr %mask)
  %there = icmp sgt i64 %bytes, 0
  br i1 %there, label %clear, label %out
clear:
  store atomic i64 %one_more, ptr %kept_at monotonic, align 8
  %byte = lshr i64 %cpu, 3
  %bit = and i64 %cpu, 7
  %bit_narrow = trunc i64 %bit to i8
  %one = shl i8 1, %bit_narrow
  %others = xor i8 %one, -1
  %byte_at = getelementptr i8, ptr %mask, i64 %byte
  %before = load i8, ptr %byte_at
  %after = and i8 %before, %others
  store i8 %after, ptr %byte_at
  %made = load atomic i64, ptr %count_at acquire, align 8
  %many = icmp ugt i64 %made, {numbered}
  %count = select i1 %many, i64 {numbered}, i64 %made
  br label %next
next:
  %k = phi i64 [ 0, %clear ], [ %k1, %look ], [ %k1, %move ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %look, label %out
look: ; 0 where a thread is counted and not yet entered: the system takes that for the caller
  %k1 = add i64 %k, 1
  %offset = shl i64 %k, 3
  %at = add i64 %offset, {numbers}
  %number_at = getelementptr i8, ptr @state, i64 %at
  %number = load atomic i64, ptr %number_at monotonic, align 8
  %entered = icmp ne i64 %number, 0
  br i1 %entered, label %move, label %next
move:
  %moved = call i64 (i64, ...) %call(i64 {set_cores}, i64 %number, i64 %bytes, ptr %mask)
  br label %next
out:
  ret void
}}

define ptr @worker(ptr %unused) {{
entry:
  %sleepers_at = getelementptr i8, ptr @state, i64 64
  %stop_at = getelementptr i8, ptr @state, i64 72
  %pauses_at = getelementptr i8, ptr @state, i64 104
  %kept_at = getelementptr i8, ptr @state, i64 160
  %count_at = getelementptr i8, ptr @state, i64 168
  %call_at = getelementptr i8, ptr @state, i64 112
  %system = load ptr, ptr %call_at
  %own = call i64 (i64, ...) %system(i64 {get_number})
  %k_own = atomicrmw add ptr %count_at, i64 1 seq_cst
  %has_place = icmp ult i64 %k_own, {numbered}
  br i1 %has_place, label %enter, label %listen
enter: ; whoever calls next moves this one too
  %own_offset = shl i64 %k_own, 3
  %own_at = add i64 %own_offset, {numbers}
  %number_at = getelementptr i8, ptr @state, i64 %own_at
  store atomic i64 %own, ptr %number_at release, align 8
  store atomic i64 0, ptr %kept_at seq_cst, align 8
  br label %listen
listen:
  %bell = load atomic i32, ptr @state seq_cst, align 4
  %stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %over = icmp ne i64 %stop, 0
  br i1 %over, label %out, label %scan
scan:
  %at = phi i64 [ 256, %listen ], [ %at, %seat ], [ %beyond, %none ]
  %slot = getelementptr i8, ptr @state, i64 %at
  %tag = load atomic i64, ptr %slot acquire, align 8
  %shifted = lshr i64 %tag, 16
  %seats = and i64 %shifted, 65535
  %free = icmp ne i64 %seats, 0
  br i1 %free, label %seat, label %none
none:
  %beyond = add i64 %at, 128
  %more = icmp ult i64 %beyond, {numbers}
  br i1 %more, label %scan, label %idle
seat:
  %seated = sub i64 %tag, 65536
  %swap = cmpxchg ptr %slot, i64 %tag, i64 %seated acq_rel acquire
  %sits = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %sits, label %call, label %scan
call: ; whoever sleeps is woken by those who woke
  %awake = call i64 @awake()
  %some = icmp ugt i64 %seats, %awake ; this one is among both
  br i1 %some, label %ring, label %join
ring:
  call void @wake(i64 0, i64 2)
  br label %join
join:
  %epoch = lshr i64 %tag, 32
  call void @work(i64 %at, i64 %epoch)
  br label %listen
idle:
  %pauses = load atomic i64, ptr %pauses_at monotonic, align 8
  br label %watch
watch:
  %k = phi i64 [ 0, %idle ], [ %k1, %rest ]
  %heard = load atomic i32, ptr @state monotonic, align 4
  %rung = icmp ne i32 %heard, %bell
  br i1 %rung, label %listen, label %wait
wait:
  %k1 = add i64 %k, 1
  %long = icmp ugt i64 %k1, %pauses
  br i1 %long, label %sleep, label %rest
rest:
  {pause}
  br label %watch
sleep:
  %in = atomicrmw add ptr %sleepers_at, i64 1 seq_cst
  %known = zext i32 %bell to i64
  %woken = call i64 @futex(i64 0, i64 128, i64 %known)
  %back = atomicrmw sub ptr %sleepers_at, i64 1 seq_cst
  br label %listen
out:
  ret ptr null
}}

; Units of work that a thread of their own does, and may be cancelled in at any instruction. Its words: the next unit,
; the units, those taken at once, the kernel, its words, the smallest status, pthread_setcanceltype, sem_post, and the
; semaphore that it posts at its end.
define ptr @cancellable(ptr %job) {{
entry:
  %units_at = getelementptr i8, ptr %job, i64 8
  %units = load i64, ptr %units_at
  %step_at = getelementptr i8, ptr %job, i64 16
  %step = load i64, ptr %step_at
  %kernel_at = getelementptr i8, ptr %job, i64 24
  %kernel = load ptr, ptr %kernel_at
  %words_at = getelementptr i8, ptr %job, i64 32
  %words = load i64, ptr %words_at
  %status_at = getelementptr i8, ptr %job, i64 40
  %type_at = getelementptr i8, ptr %job, i64 48
  %set_type = load ptr, ptr %type_at
  %before_at = alloca i32
  %at_once = call i32 %set_type(i32 1, ptr %before_at)
  br label %take
take:
  %begin = atomicrmw add ptr %job, i64 %step monotonic
  %some = icmp ult i64 %begin, %units
  br i1 %some, label %run, label %out
run:
  %beyond = add i64 %begin, %step
  %end = call i64 @llvm.umin.i64(i64 %beyond, i64 %units)
  %status = call i64 %kernel(i64 %words, i64 %begin, i64 %end)
  %fine = icmp eq i64 %status, 0
  br i1 %fine, label %take, label %note
note:
  %worst = atomicrmw umin ptr %status_at, i64 %status monotonic
  br label %take
out: ; what the system does at a thread's end is not to be cancelled
  %later = call i32 %set_type(i32 0, ptr %before_at)
  %post_at = getelementptr i8, ptr %job, i64 56
  %post = load ptr, ptr %post_at
  %over_at = getelementptr i8, ptr %job, i64 64
  %over = load ptr, ptr %over_at
  %posted = call i32 %post(ptr %over)
  ret ptr null
}}

; Tell every thread to end.
define void @halt() {{
  %stop_at = getelementptr i8, ptr @state, i64 72
  store atomic i64 1, ptr %stop_at seq_cst, align 8
  %rung = atomicrmw add ptr @state, i32 1 seq_cst
  call void @wake(i64 0, i64 1073741824)
  ret void
}}
"""

# The team of threads, in LLVM: work is handed over in about a microsecond, and Python takes no part in it.
#
# A job is a slot: whoever calls takes a free one, or works alone where none is. Its tag holds an epoch, the seats left
# for helpers and the next grain; a seat, then grains, are taken by compare-and-swap, so that a thread that comes late
# finds another epoch and leaves. Who takes grains takes a share of those that are left, so that takes are few and the
# last are small: 12 heads of attention in eight equal turns, of one head and of two, took two threads as long as 14.
# The caller works along and returns when every grain is done: it waits for grains that others have taken, never for
# threads that have not come. Idle threads watch the bell for some microseconds, then sleep on it; who wakes wakes two
# more. Threads that are woken are kept off the caller's core: where the system sees cores as far from each other, as in
# many virtual machines, it woke them there, and both took turns on one (a GPT-2 step after a pause of 0.1 s: 12 ms or
# 24, by chance).
#
# State, in bytes: bell 0, sleepers 64, stop 72, threads there 80, dispatches before more are asked for 88, address of
# the number of threads 96, pauses before a sleep 104, syscall 112, its number for a futex 120, PyEval_SaveThread 128,
# PyEval_RestoreThread 136, PyObject_CallNoArgs 144, what makes more threads 152, the core that threads keep off 160
# (one more than its number), numbered threads 168, bytes of work missed 176; slots of 128 bytes from 256 on, then the
# threads' numbers. A slot: tag 0, taken 8, kernel 16, words 24, units 32, grains 40, what those left are divided by 48,
# done 64, caller sleeps 72, smallest status 80.


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
