"""What engines share: traits, programs, decision tables, the kernel cache, repeats, threads; dialects and tiles."""
