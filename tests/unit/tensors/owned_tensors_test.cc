#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/tensors/named_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;

HostTensor Floats(int64_t count, int filling = 1) {
  return CopyOf(
      DType::kF32, {count},
      std::vector<std::byte>(count * 4, static_cast<std::byte>(filling)));
}

class OwnedTensorsTest : public ::testing::Test {
 protected:
  absl::Status Open(int64_t max_bytes = 1000) {
    store_.reset();
    absl::StatusOr<std::unique_ptr<NamedTensors>> opened =
        NamedTensors::Open({.state_dir = folder_.File("state"),
                            .max_bytes = max_bytes,
                            .clock = &clock_,
                            .on_file_error = [this](const absl::Status& error) {
                              file_errors_.push_back(error);
                            }});
    if (opened.ok()) store_ = *std::move(opened);
    return opened.status();
  }
  // The folder as it is once everything has been written.
  void AwaitFiles() { store_.reset(); }
  bool IsThere(const std::string& path) {
    return std::filesystem::exists(folder_.File("state/" + path));
  }
  std::vector<std::string> Names(const OwnedTensors& tensors) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : tensors.List("")) {
      names.push_back(tensor.name);
    }
    return names;
  }

  TempFolder folder_;
  ManualClock clock_;
  std::vector<absl::Status> file_errors_;
  std::unique_ptr<NamedTensors> store_;
};

TEST_F(OwnedTensorsTest, AreSeenByTheirOwnerAlone) {
  ASSERT_THAT(Open(), IsOk());
  const OwnedTensors alice = store_->Of({.name = "alice"});
  const OwnedTensors bob = store_->Of({.name = "bob"});
  const OwnedTensors nobody = store_->Of({});
  ASSERT_THAT(alice.Put("secret", Floats(3, 5), ""), IsOk());
  for (const OwnedTensors& other : {bob, nobody}) {
    EXPECT_THAT(other.List(""), IsEmpty());
    EXPECT_EQ(other.used_bytes(), 0);
    EXPECT_THAT(other.Get("secret", "f"),
                StatusIs(Code::kNotFound, ::testing::_));
    EXPECT_THAT(other.Delete("secret", "f"),
                StatusIs(Code::kNotFound, ::testing::_));
  }
  EXPECT_THAT(Names(alice), ElementsAre("secret"));
  EXPECT_EQ(alice.Find("secret", "")->bytes, Floats(3, 5).bytes);
}

TEST_F(OwnedTensorsTest, AreToOthersAsIfTheyWereNotThere) {
  ASSERT_THAT(Open(), IsOk());
  const OwnedTensors bob = store_->Of({.name = "bob"});
  ASSERT_THAT(bob.Put("mine", Floats(1), ""), IsOk());
  const absl::Status before = bob.Find("secret", "f").status();
  ASSERT_THAT(store_->Of({.name = "alice"}).Put("secret", Floats(3), ""),
              IsOk());
  ASSERT_THAT(store_->Of({.name = "alice"}).Put("secreta", Floats(3), ""),
              IsOk());
  EXPECT_EQ(bob.Find("secret", "f").status(), before);
  EXPECT_EQ(bob.Delete("secret", "f"), before);
  EXPECT_THAT(std::string(before.message()), HasSubstr("mine"));
}

TEST_F(OwnedTensorsTest, MayHaveTheNamesOfOthers) {
  ASSERT_THAT(Open(), IsOk());
  const OwnedTensors alice = store_->Of({.name = "alice"});
  const OwnedTensors bob = store_->Of({.name = "bob"});
  ASSERT_THAT(alice.Put("a", Floats(3, 5), ""), IsOk());
  ASSERT_THAT(bob.Put("a", Floats(2, 6), ""), IsOk());
  ASSERT_THAT(bob.Delete("a", ""), IsOk());
  EXPECT_EQ(alice.Find("a", "")->bytes, Floats(3, 5).bytes);
  EXPECT_EQ(store_->used_bytes(), 12);
}

TEST_F(OwnedTensorsTest, TakeNoMoreThanTheirOwnerMay) {
  ASSERT_THAT(Open(), IsOk());
  const OwnedTensors alice = store_->Of({.name = "alice", .max_bytes = 20});
  EXPECT_EQ(alice.max_bytes(), 20);
  ASSERT_THAT(alice.Put("a", Floats(3), ""), IsOk());
  EXPECT_THAT(alice.Put("b", Floats(3), "f"),
              StatusIs(Code::kResourceExhausted,
                       HasSubstr("b needs 12 bytes beside your 12, and you "
                                 "may keep 20")));
  EXPECT_THAT(store_->Of({.name = "bob"}).Put("b", Floats(30), ""), IsOk());
}

TEST_F(OwnedTensorsTest, DoNotShowInARefusalHowMuchOthersHave) {
  ASSERT_THAT(Open(1000), IsOk());
  const OwnedTensors alice = store_->Of({.name = "alice"});
  const OwnedTensors bob = store_->Of({.name = "bob"});
  ASSERT_THAT(bob.Put("mine", Floats(10), ""), IsOk());
  ASSERT_THAT(alice.Put("a", Floats(150), ""), IsOk());
  const absl::Status first = bob.CheckPut("b", 400, "f");
  ASSERT_THAT(alice.Put("a", Floats(200), ""), IsOk());
  EXPECT_THAT(first,
              StatusIs(Code::kResourceExhausted, HasSubstr("no room for")));
  EXPECT_EQ(bob.CheckPut("b", 400, "f"), first);
}

TEST_F(OwnedTensorsTest, ComeBackToTheirOwnersAfterARestart) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(store_->Of({.name = "alice"}).Put("x/a", Floats(3, 5), ""),
              IsOk());
  ASSERT_THAT(store_->Of({.name = "bob"}).Put("x/a", Floats(2, 6), ""), IsOk());
  ASSERT_THAT(store_->Of({.name = "bob"}).Put("b", Floats(2, 6), ""), IsOk());
  ASSERT_THAT(store_->Of({}).Put("x/a", Floats(1, 7), ""), IsOk());
  AwaitFiles();
  EXPECT_TRUE(IsThere("owners/alice/x%a.safetensors"));
  EXPECT_TRUE(IsThere("x%a.safetensors"));
  ASSERT_THAT(Open(), IsOk());
  EXPECT_EQ(store_->Of({.name = "alice"}).Find("x/a", "")->bytes,
            Floats(3, 5).bytes);
  EXPECT_THAT(Names(store_->Of({.name = "bob"})), ElementsAre("b", "x/a"));
  EXPECT_EQ(store_->Of({}).Find("x/a", "")->bytes, Floats(1, 7).bytes);
  EXPECT_EQ(store_->used_bytes(), 32);
  ASSERT_THAT(store_->Of({.name = "bob"}).Delete("x/a", ""), IsOk());
  AwaitFiles();
  EXPECT_FALSE(IsThere("owners/bob/x%a.safetensors"));
  EXPECT_TRUE(IsThere("owners/alice/x%a.safetensors"));
  EXPECT_THAT(file_errors_, IsEmpty());
}

TEST_F(OwnedTensorsTest, CannotBeWrittenOutsideTheFolder) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(store_->Of({.name = "../../out"}).Put("a", Floats(1), ""),
              IsOk());
  AwaitFiles();
  EXPECT_FALSE(std::filesystem::exists(folder_.File("out")));
  ASSERT_THAT(file_errors_, Not(IsEmpty()));
  EXPECT_THAT(file_errors_[0], StatusIs(Code::kInvalidArgument,
                                        HasSubstr("no name of an identity")));
}

TEST_F(OwnedTensorsTest, AreReadableByNobodyElseOnTheMachine) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(store_->Of({.name = "alice"}).Put("a", Floats(1), ""), IsOk());
  AwaitFiles();
  for (const char* path :
       {"", "/owners/alice", "/owners/alice/a.safetensors"}) {
    struct stat status = {};
    ASSERT_EQ(stat(folder_.File(std::string("state") + path).c_str(), &status),
              0)
        << path;
    EXPECT_EQ(status.st_mode & 077, 0u) << path;
  }
}

}  // namespace
}  // namespace phitap
