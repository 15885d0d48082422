"""The rules of the protocol, without Rx and without I/O: usable in any program."""
