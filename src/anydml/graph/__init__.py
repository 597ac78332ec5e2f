"""Several operators as one program: described, checked, made primitives, simplified and laid out in memory."""
