"""The threads of a team, in LLVM: how one waits for work and takes part in it, how they are woken, and on which cores.

The state's places are as `kernels/team.py` tells them; `@work`, a job's grains, is in `kernels/team_jobs.py`.
"""

from __future__ import annotations

from anydml.engines.cpu.features import IS_ARM

_NAMES = ("get_cpu", "get_cores", "set_cores", "get_number")
_NUMBERS = {True: (168, 123, 122, 178), False: (309, 204, 203, 186)}
CALLS = dict(zip(_NAMES, _NUMBERS[IS_ARM], strict=True))
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
