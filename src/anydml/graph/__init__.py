"""Several operators as one program: described or built, made primitives, simplified, laid out in memory and run."""
