#include "server/tensors/named_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// `count` floats whose bytes are all `filling`.
HostTensor Floats(int64_t count, int filling = 1) {
  return CopyOf(
      DType::kF32, {count},
      std::vector<std::byte>(count * 4, static_cast<std::byte>(filling)));
}

class NamedTensorsTest : public ::testing::Test {
 protected:
  absl::Status Open(int64_t max_bytes = 1 << 20) {
    tensors_.reset();
    absl::StatusOr<std::unique_ptr<NamedTensors>> opened =
        NamedTensors::Open({.state_dir = state_dir_,
                            .max_bytes = max_bytes,
                            .clock = &clock_,
                            .on_file_error = [this](const absl::Status& error) {
                              file_errors_.push_back(error);
                            }});
    if (opened.ok()) tensors_ = *std::move(opened);
    return opened.status();
  }
  // Keeps tensors over a restart.
  void UseFolder() { state_dir_ = folder_.File("state"); }

  std::vector<std::string> Names(absl::string_view prefix = "") {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : tensors_->Of({}).List(prefix)) {
      names.push_back(tensor.name);
    }
    return names;
  }
  std::vector<std::string> FileNames() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(state_dir_)) {
      names.push_back(file.path().filename());
    }
    return names;
  }

  TempFolder folder_;
  std::string state_dir_;
  ManualClock clock_;
  std::vector<absl::Status> file_errors_;
  std::unique_ptr<NamedTensors> tensors_;
};

TEST_F(NamedTensorsTest, GivesBackWhatWasPut) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3, 5), "name"), IsOk());
  const absl::StatusOr<HostTensor> found = tensors_->Of({}).Find("a", "name");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->bytes, Floats(3, 5).bytes);
  EXPECT_EQ(found->shape, std::vector<int64_t>{3});
  EXPECT_EQ(tensors_->used_bytes(), 12);
  const absl::StatusOr<NamedTensor> got = tensors_->Of({}).Get("a", "name");
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->create_time, clock_.Now());
  EXPECT_FALSE(got->persistent);
}

TEST_F(NamedTensorsTest, ReplacesAndLetsTheOldOneLiveOnWhereItIsUsed) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3, 5), "name"), IsOk());
  const absl::StatusOr<HostTensor> old = tensors_->Of({}).Find("a", "name");
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(2, 6), "name"), IsOk());
  EXPECT_EQ(tensors_->used_bytes(), 8);
  EXPECT_EQ(old->bytes, Floats(3, 5).bytes);
  EXPECT_EQ(tensors_->Of({}).Find("a", "name")->bytes, Floats(2, 6).bytes);
}

TEST_F(NamedTensorsTest, OffersTheNearestNames) {
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(tensors_->Of({}).Find("a", "x"),
              StatusIs(Code::kNotFound, HasSubstr("none is")));
  ASSERT_THAT(tensors_->Of({}).Put("means/layer_2", Floats(1), ""), IsOk());
  const absl::Status status =
      tensors_->Of({}).Find("means/layr_2", "x.y").status();
  EXPECT_THAT(status,
              StatusIs(Code::kNotFound, AllOf(HasSubstr("\"means/layr_2\""),
                                              HasSubstr("means/layer_2"))));
  EXPECT_EQ(FieldOf(status), "x.y");
}

TEST_F(NamedTensorsTest, ListsByNameWhatBeginsSo) {
  ASSERT_THAT(Open(), IsOk());
  for (const char* name : {"sae/b", "sae/a", "saf", "sae", "x"}) {
    ASSERT_THAT(tensors_->Of({}).Put(name, Floats(1), ""), IsOk());
  }
  EXPECT_THAT(Names(), ElementsAre("sae", "sae/a", "sae/b", "saf", "x"));
  EXPECT_THAT(Names("sae/"), ElementsAre("sae/a", "sae/b"));
  EXPECT_THAT(Names("y"), ElementsAre());
}

TEST_F(NamedTensorsTest, ForgetsWhatIsDeleted) {
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
  const absl::StatusOr<HostTensor> used = tensors_->Of({}).Find("a", "");
  ASSERT_THAT(tensors_->Of({}).Delete("a", ""), IsOk());
  EXPECT_EQ(tensors_->used_bytes(), 0);
  EXPECT_EQ(used->bytes, Floats(3).bytes);
  EXPECT_THAT(tensors_->Of({}).Delete("a", "name"),
              StatusIs(Code::kNotFound, HasSubstr("name: no tensor \"a\"")));
}

TEST_F(NamedTensorsTest, RefusesNamesThatAreNone) {
  ASSERT_THAT(Open(), IsOk());
  for (const std::string& name :
       {std::string(), std::string("/a"), std::string(".a"), std::string("a b"),
        std::string("ä"), std::string("a\n"), std::string(257, 'a')}) {
    EXPECT_THAT(tensors_->Of({}).Put(name, Floats(1), "f"),
                StatusIs(Code::kInvalidArgument, HasSubstr("f: ")))
        << name;
    EXPECT_THAT(tensors_->Of({}).CheckPut(name, 4, "f"),
                StatusIs(Code::kInvalidArgument, HasSubstr("f: ")));
  }
  EXPECT_THAT(tensors_->Of({}).Put(std::string(256, 'a'), Floats(1), "f"),
              IsOk());
}

TEST_F(NamedTensorsTest, HoldsNoMoreBytesThanItMay) {
  ASSERT_THAT(Open(20), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
  const absl::Status full = tensors_->Of({}).Put("b", Floats(3), "f");
  EXPECT_THAT(full, StatusIs(Code::kResourceExhausted,
                             HasSubstr("b needs 12 bytes beside your 12, and "
                                       "you may keep 20")));
  EXPECT_EQ(tensors_->Of({}).CheckPut("b", 12, "f"), full);
  EXPECT_THAT(tensors_->Of({}).CheckPut("b", 8, "f"), IsOk());
  // In place of the first there is room for more.
  EXPECT_THAT(tensors_->Of({}).CheckPut("a", 20, "f"), IsOk());
  EXPECT_THAT(tensors_->Of({}).CheckPut("a", 21, "f"),
              StatusIs(Code::kResourceExhausted, HasSubstr("smaller")));
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(NamedTensorsTest, KeepsTensorsOverARestart) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  const absl::Time put_at = clock_.Now();
  ASSERT_THAT(tensors_->Of({}).Put("means/layer_2", Floats(3, 5), ""), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("b", Floats(2), ""), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("c", Floats(2), ""), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("b", Floats(4, 9), ""), IsOk());
  ASSERT_THAT(tensors_->Of({}).Delete("c", ""), IsOk());
  EXPECT_TRUE(tensors_->Of({}).Get("b", "")->persistent);

  clock_.Advance(absl::Hours(1));
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(Names(), ElementsAre("b", "means/layer_2"));
  EXPECT_EQ(tensors_->Of({}).Find("b", "")->bytes, Floats(4, 9).bytes);
  const absl::StatusOr<NamedTensor> mean =
      tensors_->Of({}).Get("means/layer_2", "");
  ASSERT_THAT(mean, IsOk());
  EXPECT_EQ(mean->value.bytes, Floats(3, 5).bytes);
  EXPECT_EQ(mean->create_time, put_at);
  EXPECT_TRUE(mean->persistent);
  EXPECT_EQ(tensors_->used_bytes(), 28);
  EXPECT_THAT(file_errors_, ElementsAre());
}

TEST_F(NamedTensorsTest, ReplacesATensorThatItReadFromItsFile) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3, 5), ""), IsOk());
  ASSERT_THAT(Open(), IsOk());
  const absl::StatusOr<HostTensor> old = tensors_->Of({}).Find("a", "");
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3, 6), ""), IsOk());
  ASSERT_THAT(Open(), IsOk());
  EXPECT_EQ(old->bytes, Floats(3, 5).bytes);
  EXPECT_EQ(tensors_->Of({}).Find("a", "")->bytes, Floats(3, 6).bytes);
}

TEST_F(NamedTensorsTest, RemovesWhatAnInterruptedWriteLeft) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
  tensors_.reset();
  folder_.Write("state/.unfinished", "half a ten");
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_THAT(FileNames(),
              ::testing::UnorderedElementsAre(".lock", "a.safetensors"));
}

TEST_F(NamedTensorsTest, NamesTheFileThatItCannotRead) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  tensors_.reset();
  folder_.Write("state/bad.safetensors", "no tensor at all");
  EXPECT_THAT(Open(),
              StatusIs(Code::kDataLoss, HasSubstr("state/bad.safetensors")));
}

TEST_F(NamedTensorsTest, RefusesAFileUnderAnotherTensorsName) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
  tensors_.reset();
  std::filesystem::rename(state_dir_ + "/a.safetensors",
                          state_dir_ + "/b.safetensors");
  EXPECT_THAT(Open(), StatusIs(Code::kDataLoss,
                               AllOf(HasSubstr("b.safetensors: holds the "
                                               "tensor a"),
                                     HasSubstr("a.safetensors"))));
}

TEST_F(NamedTensorsTest, RefusesAFolderThatHoldsMoreThanItMay) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
  EXPECT_THAT(Open(11), StatusIs(Code::kResourceExhausted,
                                 AllOf(HasSubstr(state_dir_), HasSubstr("12"),
                                       HasSubstr("11"))));
}

TEST_F(NamedTensorsTest, RefusesAFolderThatAnotherServerUses) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  const absl::Status status =
      NamedTensors::Open({.state_dir = state_dir_, .clock = &clock_}).status();
  EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition,
                               AllOf(HasSubstr(state_dir_),
                                     HasSubstr("another server"))));
}

TEST_F(NamedTensorsTest, RefusesAFolderThatIsAFile) {
  folder_.Write("state", "");
  UseFolder();
  EXPECT_THAT(Open(), ::testing::Not(IsOk()));
}

// Makes writing the file of `name` fail: a folder stands in its place.
TEST_F(NamedTensorsTest, KeepsInMemoryWhatItCannotWriteAndSaysSo) {
  UseFolder();
  ASSERT_THAT(Open(), IsOk());
  std::filesystem::create_directory(state_dir_ + "/a.safetensors");
  std::filesystem::create_directory(state_dir_ + "/a.safetensors/x");
  ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3, 5), ""), IsOk());
  ASSERT_THAT(tensors_->Of({}).Put("b", Floats(1), ""), IsOk());
  while (tensors_->Of({}).Get("a", "")->persistent) std::this_thread::yield();
  EXPECT_EQ(tensors_->Of({}).Find("a", "")->bytes, Floats(3, 5).bytes);
  EXPECT_TRUE(tensors_->Of({}).Get("b", "")->persistent);
  tensors_.reset();
  ASSERT_GE(file_errors_.size(), 1u);
  EXPECT_THAT(std::string(file_errors_[0].message()),
              HasSubstr("Is a directory"));
}

TEST_F(NamedTensorsTest, ServesManyThreadsAtOnce) {
  UseFolder();
  ASSERT_THAT(Open(1 << 24), IsOk());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 30; ++i) {
        const std::string name = absl::StrCat("t", (thread + i) % 4);
        ASSERT_THAT(tensors_->Of({}).Put(name, Floats(50, thread), ""), IsOk());
        const absl::StatusOr<HostTensor> found =
            tensors_->Of({}).Find(name, "");
        // Another thread may have deleted it.
        if (found.ok()) {
          ASSERT_EQ(found->bytes, Floats(50, int(found->bytes[0])).bytes);
        }
        if (i % 10 == 9) tensors_->Of({}).Delete(name, "").IgnoreError();
        tensors_->Of({}).List("t");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> kept = Names();
  const int64_t used = tensors_->used_bytes();
  EXPECT_EQ(used, static_cast<int64_t>(kept.size()) * 200);
  ASSERT_THAT(Open(1 << 24), IsOk());
  EXPECT_EQ(Names(), kept);
  EXPECT_EQ(tensors_->used_bytes(), used);
  EXPECT_THAT(file_errors_, ElementsAre());
}

}  // namespace
}  // namespace phitap
