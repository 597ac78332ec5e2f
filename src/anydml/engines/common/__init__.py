"""What engines share: traits, programs, the kernel cache, the number of threads."""
