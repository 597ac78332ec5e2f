"""The jobs of a team, in LLVM: how grains are taken and counted, and how a job is offered and waited for.

The state's places are as `kernels/team.py` tells them.
"""

from __future__ import annotations

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
