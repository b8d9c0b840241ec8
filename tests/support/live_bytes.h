// Counts the bytes of the tensors that there are.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_LIVE_BYTES_H_
#define PHITAP_TESTS_SUPPORT_LIVE_BYTES_H_

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace phitap {

// While it lives, tensors on the CPU are counted that are made meanwhile; they
// must not outlive it. One at a time.
class LiveBytes final : public c10::Allocator {
 public:
  LiveBytes() { c10::SetCPUAllocator(this, /*priority=*/1); }
  ~LiveBytes() override {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), /*priority=*/1);
  }

  int64_t now() const { return live_; }

  c10::DataPtr allocate(size_t size) override {
    void* const memory =
        size == 0 ? nullptr : std::aligned_alloc(64, (size + 63) / 64 * 64);
    TORCH_CHECK(size == 0 || memory != nullptr, "no memory");
    live_ += SizeOf(memory);
    return {memory, memory, &Free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static int64_t SizeOf(void* memory) {
    return static_cast<int64_t>(malloc_usable_size(memory));
  }
  static void Free(void* memory) {
    live_ -= SizeOf(memory);
    std::free(memory);
  }

  static inline std::atomic<int64_t> live_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_LIVE_BYTES_H_
