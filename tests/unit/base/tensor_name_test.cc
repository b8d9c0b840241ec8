#include "server/base/tensor_name.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/field_error.h"

namespace phitap {
namespace {

TEST(CheckTensorName, TakesLettersDigitsAndAFewMarks) {
  for (const char* name : {"a", "9", "_", "-x", "sae/layer.2/W_enc", "a..b"}) {
    EXPECT_TRUE(CheckTensorName(name, "f").ok()) << name;
  }
  EXPECT_TRUE(CheckTensorName(std::string(256, 'x'), "f").ok());
}

TEST(CheckTensorName, RefusesAnythingElseAndShowsIt) {
  for (const char* name : {"", ".a", "/a", "a b", "a%", "a~", "\x01"}) {
    const absl::Status status = CheckTensorName(name, "f");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(FieldOf(status), "f");
  }
  EXPECT_FALSE(CheckTensorName(std::string(257, 'x'), "f").ok());
  EXPECT_NE(CheckTensorName("\x01", "f").message().find("\\001"),
            absl::string_view::npos);
  EXPECT_LT(CheckTensorName(std::string(1 << 20, 'x'), "f").message().size(),
            300u);
}

}  // namespace
}  // namespace phitap
