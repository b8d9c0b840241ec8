#include "server/observe/process_stat.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/time/clock.h"

namespace phitap {
namespace {

TEST(ProcessTimes, AreReadPastANameWithSpacesAndParentheses) {
  const auto times = ParseProcessTimes(
      "77 (a) b (c) S 1 77 77 0 -1 4194560 900 0 0 0 31 11 0 0 20 0 5 0 54321 "
      "99999 1234 18446744073709551615 0 0");
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->cpu_ticks, 42);
  EXPECT_EQ(times->start_ticks, 54321);
  EXPECT_EQ(times->resident_pages, 1234);
}

TEST(ProcessTimes, AreNoneOfATextThatIsCut) {
  EXPECT_FALSE(ParseProcessTimes("77 (a) S 1 77").has_value());
  EXPECT_FALSE(ParseProcessTimes("").has_value());
}

TEST(ProcessStat, SaysOfThisProcessWhatIsSo) {
  const ProcessStat before = ReadProcessStat();
  EXPECT_GT(before.resident_bytes, 1 << 20);
  EXPECT_LT(before.started_at, absl::Now() + absl::Seconds(2));
  EXPECT_GT(before.started_at, absl::Now() - absl::Hours(1));
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(ReadProcessStat().open_files, before.open_files + 1);
  close(file);
  EXPECT_GE(before.max_files, before.open_files);
}

}  // namespace
}  // namespace phitap
