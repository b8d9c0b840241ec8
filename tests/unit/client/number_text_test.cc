#include "client/cli/number_text.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

TEST(BytesText, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1.00 kB");
  EXPECT_EQ(BytesText(12345), "12.3 kB");
  EXPECT_EQ(BytesText(999949), "1.00 MB");
  EXPECT_EQ(BytesText(402653184), "403 MB");
  EXPECT_EQ(BytesText(int64_t{7600} << 40), "8356 TB");
}

TEST(CountText, AbbreviatesLargeCounts) {
  EXPECT_EQ(CountText(42), "42");
  EXPECT_EQ(CountText(3821079552), "3.82 B");
}

TEST(DurationText, ChoosesItsUnit) {
  EXPECT_EQ(DurationText(absl::Microseconds(420)), "0.4 ms");
  EXPECT_EQ(DurationText(absl::Milliseconds(1250)), "1.25 s");
}

TEST(ShapeText, ListsSizes) {
  EXPECT_EQ(ShapeText({14, 64}), "[14, 64]");
  EXPECT_EQ(ShapeText({}), "[]");
}

}  // namespace
}  // namespace phitap::cli
