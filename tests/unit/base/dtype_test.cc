#include "server/base/dtype.h"

#include <gtest/gtest.h>

namespace phitap {
namespace {

struct Expected {
  DType dtype;
  int64_t bytes;
  absl::string_view name;
};

TEST(DType, HasItsSizeAndItsName) {
  for (const Expected& expected :
       {Expected{DType::kF32, 4, "float32"},
        Expected{DType::kF16, 2, "float16"},
        Expected{DType::kBF16, 2, "bfloat16"},
        Expected{DType::kI64, 8, "int64"}, Expected{DType::kI32, 4, "int32"},
        Expected{DType::kBool, 1, "bool"}}) {
    EXPECT_EQ(SizeInBytes(expected.dtype), expected.bytes) << expected.name;
    EXPECT_EQ(Name(expected.dtype), expected.name);
  }
}

}  // namespace
}  // namespace phitap
