#include "server/row_rule_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace phitap {
namespace {

class RowRuleFileTest : public testing::Test {
 protected:
  RowRuleFileTest() { std::filesystem::create_directories(folder_); }
  ~RowRuleFileTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ =
      testing::TempDir() + "row_rules_" + std::to_string(getpid());
};

TEST_F(RowRuleFileTest, FindsWhatAnEarlierStartKept) {
  RowRuleFile first(folder_);
  EXPECT_EQ(first.Find("cpu a; 2 threads"), "");
  first.Keep("cpu a; 2 threads", "multiples of 4 rows");
  first.Keep("cpu a; 8 threads", "multiples of 16 rows");
  first.Keep("cpu a; 8 threads", "exactly 64 rows");
  EXPECT_TRUE(first.write_status().ok());

  const RowRuleFile second(folder_);
  EXPECT_EQ(second.Find("cpu a; 2 threads"), "multiples of 4 rows");
  EXPECT_EQ(second.Find("cpu a; 8 threads"), "exactly 64 rows");
  EXPECT_EQ(second.Find("cpu a"), "");
}

TEST_F(RowRuleFileTest, PassesOverLinesThatAreNone) {
  std::ofstream(folder_ + "/row_rules.tsv") << "no tab\n\n\x01\tx\na\tb\nc";
  const RowRuleFile file(folder_);
  EXPECT_EQ(file.Find("a"), "b");
  EXPECT_EQ(file.Find("no tab"), "");
  EXPECT_EQ(file.Find("c"), "");
}

TEST_F(RowRuleFileTest, KeepsNothingWithoutAFolder) {
  RowRuleFile file("");
  file.Keep("a", "b");
  EXPECT_TRUE(file.write_status().ok());
  EXPECT_EQ(RowRuleFile("").Find("a"), "");
}

TEST_F(RowRuleFileTest, SaysWhereItCannotWrite) {
  RowRuleFile file(folder_ + "/none");
  file.Keep("a", "b");
  EXPECT_NE(file.write_status().message().find(folder_), std::string::npos);
}

}  // namespace
}  // namespace phitap
