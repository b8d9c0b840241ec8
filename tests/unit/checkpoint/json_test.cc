#include "server/checkpoint/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using testing::HasSubstr;

TEST(ReadJsonObject, RefusesAnythingButAnObject) {
  TempFolder folder;
  folder.Write("x.json", "[1]");
  EXPECT_THAT(ReadJsonObject(folder.path(), "x.json"),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("x.json: [1] is not an object")));
}

TEST(ReadJsonObject, RefusesAnEmptyFile) {
  TempFolder folder;
  folder.Write("x.json", "");
  EXPECT_THAT(ReadJsonObject(folder.path(), "x.json"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is not JSON")));
}

TEST(ReadJsonObject, RefusesAFolderInTheFilesPlace) {
  EXPECT_THAT(ReadJsonObject("/", "tmp"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not a regular file")));
}

}  // namespace
}  // namespace phitap
