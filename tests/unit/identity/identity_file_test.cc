#include "server/identity/identity_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class IdentityFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0600) {
    folder_.Write("tokens.json", text);
    chmod(Path().c_str(), mode);
  }
  std::string Path() { return folder_.File("tokens.json"); }
  static std::string Naming(const std::string& name, const std::string& token) {
    return absl::StrCat(R"({"identities": [{"name": ")", name,
                        R"(", "roles": ["trace"], "tokens": [")",
                        TokenHash::Of(token)->text(), R"("]}]})");
  }
  absl::StatusOr<std::unique_ptr<IdentityFile>> Open() {
    return IdentityFile::Open({.path = Path(),
                               .period = absl::InfiniteDuration(),
                               .on_change = [this](const absl::Status& status) {
                                 changes_.push_back(status);
                               }});
  }

  TempFolder folder_;
  std::vector<absl::Status> changes_;
  const std::string token_ = NewToken();
};

TEST_F(IdentityFileTest, FollowsTheFileWithoutARestart) {
  Write(Naming("alice", token_));
  const auto file = *Open();
  EXPECT_EQ(file->table()->OfToken(token_)->name, "alice");
  const std::string other = NewToken();
  Write(Naming("bob", other));
  file->Reread();
  EXPECT_EQ(file->table()->OfToken(token_), nullptr);
  EXPECT_EQ(file->table()->OfToken(other)->name, "bob");
  EXPECT_THAT(changes_, ::testing::ElementsAre(absl::OkStatus()));
}

TEST_F(IdentityFileTest, KeepsWhatItHadWhereTheFileBreaksAndSaysSoOnce) {
  Write(Naming("alice", token_));
  const auto file = *Open();
  Write("{\"identities\": [");
  for (int i = 0; i < 3; ++i) file->Reread();
  ASSERT_THAT(changes_, SizeIs(1));
  EXPECT_THAT(changes_[0],
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr(Path()), HasSubstr("is not JSON"))));
  EXPECT_EQ(file->table()->OfToken(token_)->name, "alice");

  std::remove(Path().c_str());
  for (int i = 0; i < 3; ++i) file->Reread();
  ASSERT_THAT(changes_, SizeIs(2));
  EXPECT_THAT(changes_[1], StatusIs(Code::kNotFound, ::testing::_));
  EXPECT_EQ(file->table()->OfToken(token_)->name, "alice");

  Write(Naming("bob", token_));
  file->Reread();
  EXPECT_EQ(file->table()->OfToken(token_)->name, "bob");
}

TEST_F(IdentityFileTest, DoesNothingWhereTheFileStays) {
  Write(Naming("alice", token_));
  const auto file = *Open();
  const auto table = file->table();
  file->Reread();
  EXPECT_EQ(file->table(), table);
  EXPECT_THAT(changes_, IsEmpty());
}

TEST_F(IdentityFileTest, LooksByItself) {
  Write(Naming("alice", token_));
  const auto file =
      *IdentityFile::Open({.path = Path(), .period = absl::Milliseconds(1)});
  Write(Naming("bob", token_));
  while (file->table()->OfToken(token_)->name != "bob") {
  }
}

TEST_F(IdentityFileTest, RefusesAFileThatOthersMayReadOrChange) {
  for (const mode_t mode : {0604, 0602, 0620, 0644, 0666}) {
    Write(Naming("alice", token_), mode);
    EXPECT_THAT(Open(), StatusIs(Code::kFailedPrecondition,
                                 AllOf(HasSubstr(Path()), HasSubstr("0600"))))
        << mode;
  }
  for (const mode_t mode : {0600, 0400, 0640, 0440}) {
    Write(Naming("alice", token_), mode);
    EXPECT_THAT(Open(), IsOk()) << mode;
  }
}

TEST_F(IdentityFileTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(Open(), StatusIs(Code::kNotFound, HasSubstr(Path())));
}

}  // namespace
}  // namespace phitap
