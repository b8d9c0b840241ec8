#include "server/observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace phitap {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1'700'000'000'123);

std::string Line(LogFormat format, std::vector<LogField> fields) {
  return Format({.time = kTime,
                 .level = LogLevel::kWarning,
                 .message = "stream stalled",
                 .fields = fields},
                format);
}

TEST(LogFormat, WritesTextWithItsFields) {
  EXPECT_EQ(Line(LogFormat::kText, {{log_field::kRequest, "0a1b"},
                                    {log_field::kBytes, int64_t{12}},
                                    {log_field::kSeconds, 0.5}}),
            "2023-11-14T22:13:20.123Z warning stream stalled request=0a1b "
            "bytes=12 seconds=0.5");
}

TEST(LogFormat, QuotesTextThatWouldNotReadBack) {
  EXPECT_EQ(Line(LogFormat::kText,
                 {{log_field::kError, "a \"b\"\nc"}, {log_field::kField, ""}}),
            "2023-11-14T22:13:20.123Z warning stream stalled "
            "error=\"a \\\"b\\\"\\nc\"");
}

TEST(LogFormat, WritesJsonThatReadsBack) {
  const nlohmann::json json = nlohmann::json::parse(
      Line(LogFormat::kJson, {{log_field::kError, "a \"b\"\nc \xff"},
                              {log_field::kBytes, int64_t{12}},
                              {log_field::kSeconds, 0.5}}));
  EXPECT_EQ(json["time"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["message"], "stream stalled");
  EXPECT_EQ(json["error"], "a \"b\"\nc \uFFFD");
  EXPECT_EQ(json["bytes"], 12);
  EXPECT_EQ(json["seconds"], 0.5);
}

TEST(Log, LeavesOutLinesBelowItsLevel) {
  ::testing::internal::CaptureStderr();
  SetUpLog({.level = LogLevel::kWarning, .format = LogFormat::kText});
  Log(LogLevel::kInfo, "unheard");
  Log(LogLevel::kError, "heard");
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(written, ::testing::EndsWith("error heard\n"));
  EXPECT_THAT(written, ::testing::Not(::testing::HasSubstr("unheard")));
}

}  // namespace
}  // namespace phitap
