"""Kernels as programs know them: an address, which is another in each process, and the name, which is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Address(int):
    """A number for machine words, that knows how the same place is found in another process: on disk it is that."""

    origin: tuple[Callable[..., int], tuple[Any, ...]]

    @classmethod
    def of(cls, address: int, find: Callable[..., int], *arguments: Any) -> Address:
        """An address, and the function that finds it."""
        made = cls(address)
        made.origin = (find, arguments)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return self.origin


_names: dict[int, str] = {}


def name_at(address: int) -> str:
    """The name of the kernel at an address, for whoever reads a record."""
    return _names[address]


class Kernel:
    """Compiled code: its address. It stays for as long as the process, whose threads may be in it to the end."""

    def __init__(self, name: str, find: Callable[[str], int], found_again: Callable[[str], Kernel]) -> None:
        """`found_again` finds the same kernel in another process."""
        self.name = name
        self.find = find
        """The address of a function, or of memory of the code's own; 0 where there is none of a name."""
        self.address = Address.of(self.find("kernel"), _address_of, found_again, name)
        _names[int(self.address)] = name
        self.entry = self.find("entry")
        """The function that Python calls; 0 of a kernel that only others call."""

    def __reduce__(self) -> tuple[Any, ...]:
        find, name = self.address.origin[1]
        return find, (name,)


def _address_of(find: Callable[[str], Kernel], name: str) -> Address:
    return find(name).address
