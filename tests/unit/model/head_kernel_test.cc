#include "server/model/head_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace phitap {
namespace {

constexpr int64_t kQueries = 32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<c10::BFloat16> RandomNumbers(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<c10::BFloat16> numbers(count);
  for (c10::BFloat16& x : numbers) x = c10::BFloat16(normal(random));
  return numbers;
}

// One head among others: its lines stand apart.
class Head {
 public:
  Head(int64_t width, int64_t key_count, uint32_t seed = 3)
      : width_(width), stride_(width + 7), key_count_(key_count) {
    std::mt19937 random(seed);
    queries_ = RandomNumbers(kQueries * stride_, random);
    keys_ = RandomNumbers(key_count * stride_, random);
    values_ = RandomNumbers(key_count * stride_, random);
    invisible_ = std::make_unique<bool[]>(kQueries * key_count);
  }

  bool& invisible(int64_t query, int64_t key) {
    return invisible_[query * key_count_ + key];
  }
  // Each query sees the keys up to its own, which are the last ones.
  void HideLaterKeys() {
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t key = key_count_ - kQueries + i + 1; key < key_count_;
           ++key) {
        invisible(i, key) = true;
      }
    }
  }
  c10::BFloat16& key(int64_t key, int64_t i) {
    return keys_[key * stride_ + i];
  }
  c10::BFloat16& value(int64_t key, int64_t i) {
    return values_[key * stride_ + i];
  }

  HeadTile Tile(int64_t first, int64_t count, int64_t key_count,
                std::vector<c10::BFloat16>& out) const {
    out.assign(count * width_, c10::BFloat16(77.0f));
    return {.queries = {&queries_[first * stride_], stride_},
            .query_count = count,
            .key_count = key_count,
            .invisible = &invisible_[first * key_count_],
            .invisible_stride = key_count_,
            .out = out.data(),
            .out_stride = width_};
  }
  void Attend(absl::Span<const HeadTile> tiles) const {
    AttendHead({.keys = {keys_.data(), stride_},
                .values = {values_.data(), stride_},
                .width = width_,
                .scale = Scale()},
               tiles);
  }
  std::vector<c10::BFloat16> Attend(int64_t first, int64_t count,
                                    int64_t key_count) const {
    std::vector<c10::BFloat16> out;
    const HeadTile tile = Tile(first, count, key_count, out);
    Attend({&tile, 1});
    return out;
  }
  std::vector<c10::BFloat16> AttendAll() const {
    return Attend(0, kQueries, key_count_);
  }

  // In double, nothing rounded between.
  std::vector<double> Expected(int64_t query) const {
    std::vector<double> out(width_, 0.0);
    double sum = 0.0;
    for (int64_t key = 0; key < key_count_; ++key) {
      if (invisible_[query * key_count_ + key]) continue;
      double score = 0.0;
      for (int64_t i = 0; i < width_; ++i) {
        score += double{queries_[query * stride_ + i]} *
                 double{keys_[key * stride_ + i]};
      }
      const double weight = std::exp(score * Scale());
      sum += weight;
      for (int64_t i = 0; i < width_; ++i) {
        out[i] += weight * double{values_[key * stride_ + i]};
      }
    }
    for (double& x : out) x = sum == 0.0 ? 0.0 : x / sum;
    return out;
  }

 private:
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(width_)); }

  const int64_t width_;
  const int64_t stride_;
  const int64_t key_count_;
  std::vector<c10::BFloat16> queries_;
  std::vector<c10::BFloat16> keys_;
  std::vector<c10::BFloat16> values_;
  std::unique_ptr<bool[]> invisible_;
};

class HeadKernel : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasHeadKernel()) GTEST_SKIP() << "not on this CPU";
  }
  static bool Same(absl::Span<const c10::BFloat16> a,
                   absl::Span<const c10::BFloat16> b) {
    return a.size() == b.size() &&
           std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
  }
};

TEST_F(HeadKernel, MixesWhatTheFormulaSaysForEveryWidthAndNumberOfKeys) {
  for (const int64_t width : {1, 2, 15, 16, 20, 33, 64, 96, 128, 200}) {
    for (const int64_t key_count : {32, 96, 512, 544, 1120}) {
      Head head(width, key_count);
      head.HideLaterKeys();
      for (int64_t key = 0; key < key_count; key += 3) {
        head.invisible(5, key) = true;
      }
      const std::vector<c10::BFloat16> out = head.AttendAll();
      for (int64_t query = 0; query < kQueries; ++query) {
        const std::vector<double> expected = head.Expected(query);
        for (int64_t i = 0; i < width; ++i) {
          ASSERT_NEAR(double{out[query * width + i]}, expected[i], 0.012)
              << width << " wide, " << key_count << " keys, query " << query;
        }
      }
    }
  }
}

TEST_F(HeadKernel, GivesAQueryTheSameBitsAloneAsAmongOthers) {
  Head head(96, 1056);
  head.HideLaterKeys();
  const std::vector<c10::BFloat16> all = head.AttendAll();
  for (int64_t first = 0; first < kQueries; ++first) {
    for (const int64_t count : {1, 3, 4, 7, 8, 13}) {
      if (first + count > kQueries) continue;
      EXPECT_TRUE(Same(head.Attend(first, count, 1056),
                       absl::MakeSpan(all).subspan(first * 96, count * 96)))
          << count << " from " << first;
    }
  }
}

TEST_F(HeadKernel, GivesTheSameBitsWhateverInvisibleKeysFollow) {
  for (const int64_t seen : {32, 480, 512, 544}) {
    Head head(40, seen + 608);
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t key = seen; key < seen + 608; ++key) {
        head.invisible(i, key) = true;
      }
    }
    const std::vector<c10::BFloat16> all = head.AttendAll();
    EXPECT_TRUE(Same(head.Attend(0, kQueries, seen), all));
    head.key(seen, 0) = c10::BFloat16(kNan);
    head.key(seen + 600, 3) =
        c10::BFloat16(std::numeric_limits<float>::infinity());
    EXPECT_TRUE(Same(head.AttendAll(), all));
  }
}

TEST_F(HeadKernel, GivesTheSameBitsForTilesTogetherAsOneByOne) {
  Head head(96, 640);
  std::vector<std::vector<c10::BFloat16>> outs(20), alone(20);
  std::vector<HeadTile> tiles;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t first = i % 5;
    const int64_t count = 1 + (7 * i) % 27;
    tiles.push_back(head.Tile(first, count, 32 * (i + 1), outs[i]));
    alone[i] = head.Attend(first, count, 32 * (i + 1));
  }
  head.Attend(tiles);
  for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(Same(outs[i], alone[i])) << i;
}

TEST_F(HeadKernel, GivesAQueryThatSeesNothingZeros) {
  Head head(24, 64);
  for (int64_t key = 0; key < 64; ++key) head.invisible(9, key) = true;
  const std::vector<c10::BFloat16> out = head.AttendAll();
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(out[9 * 24 + i].x, 0);
    EXPECT_NE(out[8 * 24 + i].x, 0);
  }
}

TEST_F(HeadKernel, LetsNanReachTheQueriesThatSeeItsKeyAndNoOther) {
  for (const int64_t bad : {0, 17, 40, 63}) {
    Head head(24, 64);
    head.HideLaterKeys();
    const std::vector<c10::BFloat16> before = head.AttendAll();
    head.key(bad, 5) = c10::BFloat16(kNan);
    const std::vector<c10::BFloat16> after = head.AttendAll();
    for (int64_t query = 0; query < kQueries; ++query) {
      for (int64_t i = query * 24; i < (query + 1) * 24; ++i) {
        if (head.invisible(query, bad)) {
          EXPECT_EQ(after[i].x, before[i].x);
        } else {
          EXPECT_TRUE(std::isnan(float{after[i]}));
        }
      }
    }
  }
}

TEST_F(HeadKernel, LetsNanReachAQueryThatSeesNothingElse) {
  Head head(24, 32);
  for (int64_t key = 1; key < 32; ++key) head.invisible(0, key) = true;
  head.key(0, 0) = c10::BFloat16(kNan);
  EXPECT_TRUE(std::isnan(float{head.AttendAll()[0]}));
}

}  // namespace
}  // namespace phitap
