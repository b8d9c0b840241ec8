#include "server/models/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/checkpoint_files.h"

namespace phitap {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelFolderTest : public ::testing::Test {
 protected:
  ModelFolderTest() {
    fs::create_directories(root_ / "models" / "phi");
    fs::create_directories(root_ / "models" / "group" / "deep");
    fs::create_directories(root_ / "models" / "notes");
    fs::create_directories(root_ / "outside");
    temp_.Write("models/phi/config.json", "{}");
    temp_.Write("models/group/deep/config.json", "{}");
    temp_.Write("outside/config.json", "{}");
    fs::create_directory_symlink(root_ / "outside", root_ / "models" / "link");
    fs::create_directory_symlink("phi", root_ / "models" / "alias");
  }

  absl::StatusCode CodeOf(const std::string& relative) {
    return folder_.Resolve(relative).status().code();
  }

  TempFolder temp_;
  const fs::path root_ = fs::canonical(temp_.path());
  const ModelFolder folder_{temp_.File("models")};
};

TEST_F(ModelFolderTest, FindsCheckpointsBelowIt) {
  EXPECT_EQ(*folder_.Resolve("phi"), root_ / "models" / "phi");
  EXPECT_EQ(*folder_.Resolve("group/deep"),
            root_ / "models" / "group" / "deep");
  EXPECT_EQ(*folder_.Resolve("alias"), root_ / "models" / "phi");
}

TEST_F(ModelFolderTest, IsNotLeft) {
  for (const char* path :
       {"..", "../outside", "phi/../../outside", "link", "link/", ".", "",
        "/etc", "group/../../models/phi"}) {
    EXPECT_EQ(CodeOf(path), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(CodeOf((root_ / "models" / "phi").string()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(std::string("phi\0/..", 7)),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelFolderTest, OffersTheNearestOfWhatItHas) {
  const absl::Status status = folder_.Resolve("phj").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("valid: phi"));
}

TEST_F(ModelFolderTest, ListsSubFoldersWithAConfiguration) {
  std::vector<std::string> names;
  for (const ModelSource& source : folder_.List()) names.push_back(source.name);
  EXPECT_THAT(names, ::testing::ElementsAre("alias", "phi"));
}

TEST_F(ModelFolderTest, HoldsNothingWhereThereIsNone) {
  const ModelFolder none("");
  EXPECT_TRUE(none.Check().ok());
  EXPECT_TRUE(none.List().empty());
  EXPECT_EQ(none.Resolve("phi").status().code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::Status missing = ModelFolder("/nowhere").Check();
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("--model-folder /nowhere"));
  EXPECT_TRUE(ModelFolder("/nowhere").List().empty());
}

}  // namespace
}  // namespace phitap
