#include "client/cpp/freed_memory.h"

#include <cstdlib>

namespace phitap::client {
namespace {

// The largest that still teaches glibc: with what it adds, below 32 MiB. Twice
// as much is kept.
constexpr size_t kBlockBytes = (size_t{32} << 20) - (size_t{64} << 10);

}  // namespace

void KeepFreedMemory() {
  static const bool once = [] {
    // Volatile: the compiler may drop an allocation that nobody uses. Never
    // touched, so that it costs two system calls and no memory.
    void* volatile block = std::malloc(kBlockBytes);
    std::free(block);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace phitap::client
