#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/free_memory.h"
#include "server/memory_shares.h"

namespace phitap {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A machine of which 12 GiB are available, as its files tell it.
class FreeMemoryTest : public ::testing::Test {
 protected:
  FreeMemoryTest() {
    const ::testing::TestInfo& test =
        *::testing::UnitTest::GetInstance()->current_test_info();
    sources_.root = ::testing::TempDir() + "/" + test.name();
    Write("/proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree:         1048576 kB\n"
          "MemAvailable:   12582912 kB\n");
    Write("/proc/self/status", "Name:\tphitapd\nVmSize:\t 2097152 kB\n");
  }
  ~FreeMemoryTest() override { std::filesystem::remove_all(sources_.root); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = sources_.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  FreeMemory Read() { return ReadFreeMemory(sources_); }

  MemorySources sources_;
};

TEST_F(FreeMemoryTest, IsWhatIsAvailableWhereNothingElseBinds) {
  EXPECT_EQ(Read().size_bytes, 12 * kGiB);
  EXPECT_EQ(Read().bound, "physical memory");
}

TEST_F(FreeMemoryTest, IsWhatACgroupLeavesWithoutThePagesOfFiles) {
  Write("/proc/self/cgroup", "0::/pod/phitap\n");
  Write("/sys/fs/cgroup/pod/phitap/memory.max", "4294967296\n");
  Write("/sys/fs/cgroup/pod/phitap/memory.current", "3221225472\n");
  Write("/sys/fs/cgroup/pod/phitap/memory.stat",
        "anon 1073741824\nfile 2147483648\nfile_mapped 1\n");
  EXPECT_EQ(Read().size_bytes, 3 * kGiB);
  EXPECT_EQ(Read().bound, "cgroup");
}

TEST_F(FreeMemoryTest, IsBoundByTheCgroupsAbove) {
  Write("/proc/self/cgroup", "0::/pod/phitap\n");
  Write("/sys/fs/cgroup/pod/phitap/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/memory.max", "5368709120\n");
  Write("/sys/fs/cgroup/pod/memory.current", "1073741824\n");
  EXPECT_EQ(Read().size_bytes, 4 * kGiB);
}

TEST_F(FreeMemoryTest, ReadsCgroupsOfTheFirstVersion) {
  Write("/proc/self/cgroup", "5:cpu:/other\n4:memory:/docker/abc\n0::/\n");
  // In a container the path is the host's, and only the root is there.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1610612736\n");
  Write("/sys/fs/cgroup/memory/memory.stat",
        "cache 5\ntotal_cache 1073741824\n");
  EXPECT_EQ(Read().size_bytes, kGiB + kGiB / 2);
  EXPECT_EQ(Read().bound, "cgroup");
}

TEST_F(FreeMemoryTest, TakesALimitBeyondAllMemoryForNone) {
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().bound, "physical memory");
}

TEST_F(FreeMemoryTest, IsMostOfTheAddressSpaceThatIsLeft) {
  sources_.address_space_bytes = 6 * kGiB;
  EXPECT_EQ(Read().size_bytes, 3 * kGiB);
  EXPECT_EQ(Read().bound, "address space");
  sources_.address_space_bytes = kGiB;
  EXPECT_EQ(Read().size_bytes, 0);
}

TEST_F(FreeMemoryTest, CountsFilesInPlaceOnceWhateverBinds) {
  sources_.mapped_bytes = 5 * kGiB;
  EXPECT_EQ(Read().size_bytes, 7 * kGiB);
  sources_.address_space_bytes = 6 * kGiB;
  EXPECT_EQ(Read().size_bytes, 3 * kGiB);
  Write("/sys/fs/cgroup/memory.max", "6442450944\n");
  EXPECT_EQ(Read().size_bytes, kGiB);
}

TEST(FreeMemory, IsSomethingOnThisMachine) {
  EXPECT_GT(ReadFreeMemory(ProcessMemorySources()).size_bytes, 0);
}

int64_t TotalOf(const MemoryLimits& limits) {
  return limits.max_undelivered_bytes + limits.max_workspace_bytes +
         limits.max_root_bytes;
}

TEST(DivideMemory, LeavesAnEighthOfWhatTheTensorsLeave) {
  const MemoryLimits limits =
      DivideMemory({.free_bytes = 13 * kGiB, .tensor_bytes = 5 * kGiB}, {});
  EXPECT_EQ(TotalOf(limits), 7 * kGiB);
  EXPECT_EQ(limits.max_root_bytes, 7 * kGiB / 8);
  EXPECT_EQ(limits.max_undelivered_bytes, limits.max_workspace_bytes);
  EXPECT_EQ(limits.max_caller_bytes, limits.max_undelivered_bytes / 2);
  EXPECT_EQ(limits.max_wave_bytes, limits.max_workspace_bytes / 2);
}

TEST(DivideMemory, KeepsNoMoreThanPaysOfALargeMachine) {
  const MemoryLimits limits = DivideMemory({.free_bytes = 800 * kGiB}, {});
  EXPECT_EQ(TotalOf(limits), 700 * kGiB);
  EXPECT_EQ(limits.max_root_bytes, 2 * kGiB);
  EXPECT_EQ(limits.max_wave_bytes, 2 * kGiB);
}

TEST(DivideMemory, LeavesWhatIsDecidedAndDividesTheRest) {
  const MemoryLimits limits =
      DivideMemory({.free_bytes = 16 * kGiB},
                   {.max_workspace_bytes = 10 * kGiB, .max_root_bytes = kGiB});
  EXPECT_EQ(limits.max_workspace_bytes, 10 * kGiB);
  EXPECT_EQ(limits.max_root_bytes, kGiB);
  EXPECT_EQ(limits.max_undelivered_bytes, 3 * kGiB);
}

TEST(DivideMemory, LeavesALittleOfEverythingWhereThereIsNothing) {
  const MemoryLimits limits =
      DivideMemory({.free_bytes = kGiB, .tensor_bytes = 2 * kGiB}, {});
  EXPECT_EQ(limits.max_undelivered_bytes, 16 << 20);
  EXPECT_EQ(limits.max_workspace_bytes, 16 << 20);
  EXPECT_EQ(limits.max_root_bytes, 16 << 20);
}

TEST(DecidePacking, PacksWhereThatLeavesHalfOfTheMemory) {
  EXPECT_EQ(DecidePacking(4 * kGiB, 8 * kGiB), WeightPacking::kPacked);
  EXPECT_EQ(DecidePacking(4 * kGiB, 8 * kGiB - 2), WeightPacking::kNone);
}

TEST(DefaultTensorBytes, AreASmallPartOfTheMemory) {
  EXPECT_EQ(DefaultTensorBytes(16 * kGiB), kGiB);
  EXPECT_EQ(DefaultTensorBytes(800 * kGiB), 4 * kGiB);
  EXPECT_EQ(DefaultTensorBytes(0), 16 << 20);
}

}  // namespace
}  // namespace phitap
