#include "server/schedule/heap_trim.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace phitap {
namespace {

TEST(HeapTrim, TrimsOnceInAWhile) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  int count = 0;
  HeapTrim trim(start, [&] { ++count; });
  EXPECT_FALSE(
      trim.TrimIfDue(start + HeapTrim::kPause - absl::Milliseconds(1)));
  EXPECT_EQ(count, 0);
  EXPECT_TRUE(trim.TrimIfDue(start + HeapTrim::kPause));
  EXPECT_EQ(count, 1);
  trim.TrimIfDue(start + 1.9 * HeapTrim::kPause);
  EXPECT_EQ(count, 1);
  trim.TrimIfDue(start + 5 * HeapTrim::kPause);
  EXPECT_EQ(count, 2);
}

// Anonymous memory of the process.
int64_t ResidentKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes;
  }
  return 0;
}

TEST(HeapTrim, GivesBackWhatLiesBetweenBlocksThatAreKept) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have a heap of their own";
#endif
  constexpr size_t kBlockBytes = 64 << 10;
  constexpr int kBlocks = 1000;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    // Zeroed, hence resident.
    blocks.push_back(std::make_unique<char[]>(kBlockBytes));
  }
  for (int i = 0; i + 1 < kBlocks; ++i) {
    if (i % 10 != 0) blocks[i].reset();
  }
  const int64_t before = ResidentKilobytes();
  HeapTrim(absl::InfinitePast()).TrimIfDue(absl::UnixEpoch());
  EXPECT_LT(ResidentKilobytes(), before - kBlocks * int64_t{32});
}

}  // namespace
}  // namespace phitap
