// Owners that put, find, list and delete at once, while files are written
// behind them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/tensors/named_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/load_seed.h"
#include "tests/support/manual_clock.h"

namespace phitap {
namespace {

constexpr int kThreads = 4;
constexpr int kActs = 60;
constexpr int kNames = 4;
constexpr int64_t kOwnerBytes = 900;

class TensorLoad : public ::testing::Test {
 protected:
  void Open() {
    absl::StatusOr<std::unique_ptr<NamedTensors>> opened =
        NamedTensors::Open({.state_dir = folder_.File("state"),
                            .max_bytes = 2000,
                            .clock = &clock_,
                            .on_file_error = [](const absl::Status& error) {
                              ADD_FAILURE() << error;
                            }});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }

  // Two threads share an owner.
  OwnedTensors Of(int thread) {
    return store_->Of(
        {.name = absl::StrCat("owner", thread / 2), .max_bytes = kOwnerBytes});
  }

  // Puts, finds, lists and deletes; what is found is whole.
  void Act(int thread) {
    std::mt19937 random(LoadSeed(thread));
    const OwnedTensors tensors = Of(thread);
    for (int i = 0; i < kActs; ++i) {
      const int number = static_cast<int>(random() % kNames);
      const std::string name = absl::StrCat("tensor", number);
      switch (random() % 5) {
        case 0:
        case 1:
          Put(tensors, name, 1 + static_cast<int64_t>(random() % 120));
          break;
        case 2:
          tensors.Delete(name, "name").IgnoreError();
          break;
        case 3:
          if (const auto found = tensors.Find(name, "name"); found.ok()) {
            ExpectWhole(*found, name);
          }
          break;
        default:
          for (const NamedTensor& listed : tensors.List("tensor")) {
            ExpectWhole(listed.value, listed.name);
          }
          EXPECT_LE(tensors.used_bytes(), kOwnerBytes);
          EXPECT_LE(store_->used_bytes(), 2000);
      }
    }
  }

  // Filled with the last letter of its name.
  static void Put(const OwnedTensors& tensors, const std::string& name,
                  int64_t count) {
    const std::vector<std::byte> bytes(count * 4,
                                       static_cast<std::byte>(name.back()));
    const absl::Status status =
        tensors.Put(name, CopyOf(DType::kF32, {count}, bytes), "name");
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }

  static void ExpectWhole(const HostTensor& value, const std::string& name) {
    EXPECT_EQ(static_cast<int64_t>(value.bytes.size()), value.shape[0] * 4);
    const auto filling = static_cast<std::byte>(name.back());
    EXPECT_TRUE(std::all_of(value.bytes.begin(), value.bytes.end(),
                            [&](std::byte b) { return b == filling; }));
  }

  // "owner0/tensor1 80, …", and that the bytes add up.
  std::string Kept() {
    std::string kept;
    int64_t bytes = 0;
    for (int owner = 0; owner < kThreads / 2; ++owner) {
      for (const NamedTensor& tensor : Of(2 * owner).List("")) {
        ExpectWhole(tensor.value, tensor.name);
        absl::StrAppend(&kept, tensor.owner_name, "/", tensor.name, " ",
                        tensor.value.bytes.size(), ", ");
        bytes += static_cast<int64_t>(tensor.value.bytes.size());
      }
    }
    EXPECT_EQ(store_->used_bytes(), bytes);
    return kept;
  }

  TempFolder folder_;
  ManualClock clock_;
  std::unique_ptr<NamedTensors> store_;
};

TEST_F(TensorLoad, LeavesOnDiskWhatIsKept) {
  Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] { Act(i); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string kept = Kept();
  EXPECT_FALSE(kept.empty());
  // Once everything is written.
  store_.reset();
  Open();
  EXPECT_EQ(Kept(), kept);
  for (int owner = 0; owner < kThreads / 2; ++owner) {
    for (const NamedTensor& tensor : Of(2 * owner).List("")) {
      EXPECT_TRUE(Of(2 * owner).Delete(tensor.name, "name").ok());
    }
  }
  EXPECT_EQ(store_->used_bytes(), 0);
}

}  // namespace
}  // namespace phitap
