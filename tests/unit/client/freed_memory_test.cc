#include "client/cpp/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace phitap::client {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kPieces = 256;

// Pages that the kernel had to map in while pieces were filled.
long FillAndFree() {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  std::vector<void*> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::malloc(kPieceBytes));
    std::memset(pieces.back(), 1, kPieceBytes);
  }
  for (void* piece : pieces) std::free(piece);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(FreedMemory, IsThereWhenItIsAskedForAgain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator has ways of its own";
#endif
  // In a process of its own, whose allocator has learnt nothing from other
  // tests. 16 MiB are 4,096 pages.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        KeepFreedMemory();
        FillAndFree();
        std::exit(FillAndFree() < 256 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace phitap::client
