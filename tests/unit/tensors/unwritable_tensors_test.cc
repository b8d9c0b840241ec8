// Tensors whose files cannot be written: kept in memory, and on disk later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/tensors/named_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

HostTensor Floats(int64_t count) {
  return CopyOf(DType::kF32, {count}, std::vector<std::byte>(count * 4));
}

class UnwritableTensorsTest : public ::testing::Test {
 protected:
  // A folder stands where the file of `a` is to be.
  void SetUp() override {
    Open();
    std::filesystem::create_directory(file_of_a());
    ASSERT_THAT(tensors_->Of({}).Put("a", Floats(3), ""), IsOk());
    while (IsPersistent("a")) std::this_thread::yield();
  }
  void Open() {
    tensors_.reset();
    absl::StatusOr<std::unique_ptr<NamedTensors>> opened =
        NamedTensors::Open({.state_dir = folder_.File("state"),
                            .clock = &clock_,
                            .on_file_error = [this](const absl::Status& error) {
                              const std::lock_guard lock(mutex_);
                              errors_.push_back(error);
                            }});
    ASSERT_THAT(opened, IsOk());
    tensors_ = *std::move(opened);
  }
  std::string file_of_a() const {
    return folder_.File("state") + "/a.safetensors";
  }
  bool IsPersistent(const std::string& name) {
    return tensors_->Of({}).Get(name, "")->persistent;
  }

  TempFolder folder_;
  ManualClock clock_;
  std::mutex mutex_;  // Guards errors_.
  std::vector<absl::Status> errors_;
  std::unique_ptr<NamedTensors> tensors_;
};

TEST_F(UnwritableTensorsTest, AreWrittenOnceAnotherOneCouldBe) {
  std::filesystem::remove(file_of_a());
  clock_.Advance(absl::Seconds(10));
  ASSERT_THAT(tensors_->Of({}).Put("b", Floats(1), ""), IsOk());
  while (!IsPersistent("a")) std::this_thread::yield();
  EXPECT_TRUE(std::filesystem::is_regular_file(file_of_a()));
}

TEST_F(UnwritableTensorsTest, AreToldOfWithoutTheirNames) {
  const std::lock_guard lock(mutex_);
  ASSERT_FALSE(errors_.empty());
  for (const absl::Status& error : errors_) {
    EXPECT_THAT(error.message(),
                testing::AllOf(testing::HasSubstr("directory"),
                               testing::Not(testing::HasSubstr("safetensors"))))
        << error;
  }
}

TEST_F(UnwritableTensorsTest, AreWrittenAsTheStoreCloses) {
  std::filesystem::remove(file_of_a());
  Open();
  EXPECT_EQ(tensors_->Of({}).Find("a", "")->bytes, Floats(3).bytes);
  EXPECT_TRUE(IsPersistent("a"));
}

TEST_F(UnwritableTensorsTest, LetTheStoreCloseWhereTheyStayUnwritable) {
  std::filesystem::create_directory(file_of_a() + "/x");
  tensors_.reset();
  std::filesystem::remove_all(file_of_a());
  Open();
  EXPECT_THAT(tensors_->Of({}).Find("a", ""),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
}

}  // namespace
}  // namespace phitap
