// What the thread sanitizer cannot see in Debian's libraries, told to it where
// they are called. Linked into the tests of the preset `tsan` alone.
//
// Debian builds gRPC and abseil without the sanitizer. It follows pthread's
// locks into them, but absl::Mutex, gRPC's only lock, is made of atomics and
// futexes: to the sanitizer, whoever takes it after another does so by chance,
// and everything that gRPC hands from one thread to the next looks like a race.
// The same goes for the count of those who share a status. These definitions
// come before the library's, for gRPC's own calls, too: each does what the
// library's does, and says what that means for the order of events. No order is
// claimed that lock or count does not make, hence no race that is one is
// hidden.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

// In the sanitizer's library, and in none of its headers.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

// The library's function of that (mangled) name.
template <typename Function>
Function* Library(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

#define PHITAP_LIBRARY(Function, name) \
  static auto* const library = Library<Function>(name)

void Mutex::Lock() {
  PHITAP_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex4LockEv");
  library(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  PHITAP_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  library(this);
}

bool Mutex::TryLock() {
  PHITAP_LIBRARY(bool(Mutex*), "_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = library(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::LockWhen(const Condition& condition) {
  PHITAP_LIBRARY(void(Mutex*, const Condition&),
                 "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  library(this, condition);
  __tsan_acquire(this);
}

void CondVar::Wait(Mutex* mutex) {
  PHITAP_LIBRARY(void(CondVar*, Mutex*),
                 "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  library(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  PHITAP_LIBRARY(bool(CondVar*, Mutex*, Time),
                 "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_"
                 "4TimeE");
  __tsan_release(mutex);
  const bool expired = library(this, mutex, deadline);
  __tsan_acquire(mutex);
  return expired;
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  PHITAP_LIBRARY(bool(CondVar*, Mutex*, Duration),
                 "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_"
                 "8DurationE");
  __tsan_release(mutex);
  const bool expired = library(this, mutex, timeout);
  __tsan_acquire(mutex);
  return expired;
}

#undef PHITAP_LIBRARY

// Whoever lets go last comes after all the others. But gRPC makes a status on
// one thread and moves it to the next through a queue without a lock: freeing
// what is in it is not taken for a write.
void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* const shared = RepToPointer(rep);
  if (shared->ref.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  delete shared;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

ABSL_NAMESPACE_END
}  // namespace absl
