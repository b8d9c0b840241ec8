"""Runs a program with what deploy/systemd/phitapd.service leaves it, by the kernel's means and without systemd: no new privileges, no
capabilities, a filter of system calls, the address families of sockets, and no memory that turns from written to executed.

usage: confined.py CALLS FAMILIES W^X PROGRAM [ARGUMENT...]      CALLS, FAMILIES: names with commas between them; W^X: yes or no
"""

import ctypes
import errno
import os
import socket
import sys

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_MDWE = 38, 24, 65
LAST_CAPABILITY = 40
EQUAL = 4  # SCMP_CMP_EQ
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def main(calls: str, families: str, write_or_execute: str, *command: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if write_or_execute == "yes":
        check(libc.prctl(PR_SET_MDWE, 1, 0, 0, 0), "MDWE")
    load_filter(calls.split(","), families.split(","))
    os.execv(command[0], command)


def load_filter(calls: list[str], families: list[str]) -> None:
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(REFUSE)))
    for name in calls:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if name != "socket" and number >= 0:
            check(seccomp.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0), name)
    number = seccomp.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        equal = Comparison(0, EQUAL, getattr(socket, family), 0)
        check(seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), number, 1, ctypes.byref(equal)), family)
    check(seccomp.seccomp_load(context), "seccomp")


def check(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"confined.py: {what}: {os.strerror(abs(result) if result != -1 else ctypes.get_errno())}")


if __name__ == "__main__":
    main(*sys.argv[1:])
