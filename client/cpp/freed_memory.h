// Keeps memory that is received into in the process.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_FREED_MEMORY_H_
#define PHITAP_CLIENT_CPP_FREED_MEMORY_H_

namespace phitap::client {

// Lets the allocator keep up to 64 MiB of freed memory. A stream is received
// in pieces of 64 KiB that are allocated and freed at its rate; glibc, as it
// starts, keeps 128 KiB of what is freed and hands the rest back, to be mapped
// and cleared anew a moment later, which halves the rate. It learns better as
// soon as a program frees one large block, and that is what this does, once a
// process: limits that the program set itself (mallopt, GLIBC_TUNABLES) stay.
// Thread-safe.
void KeepFreedMemory();

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_FREED_MEMORY_H_
