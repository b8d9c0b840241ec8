// SPDX-License-Identifier: Apache-2.0
#include "server/trace/line_math.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace phitap {
namespace {

constexpr int64_t kLines = 70;

using Operation = std::function<at::Tensor(const at::Tensor&)>;
using InPlace = void (*)(at::Tensor&);

bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.sizes() == y.sizes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

struct Width {
  int64_t columns = 1;
  // Between the numbers of lines that one thread tries.
  int64_t stride = 1;
};
// Between those that several threads try: they wait for one another, on a busy
// machine long.
constexpr int64_t kStrideOfThreads = 33;

// What the bits of a line are compared with: those it has among all 70 lines
// with as many threads, or with one.
enum class Reference { kSameThreads, kOneThread };

// How `operation` fails to give 1 to 70 lines of a width the same bits, taken
// from either end, with 1, 2 and 12 threads.
std::vector<std::string> Differences(
    const Operation& operation, Width width,
    Reference reference = Reference::kOneThread) {
  std::vector<std::string> differences;
  const at::Tensor x = at::randn({kLines, width.columns}) * 3;
  const int threads_before = at::get_num_threads();
  at::set_num_threads(1);
  at::Tensor all = operation(x);
  for (const int threads : {1, 2, 12}) {
    at::set_num_threads(threads);
    if (reference == Reference::kSameThreads) all = operation(x);
    const int64_t stride =
        threads == 1 ? width.stride : std::max(width.stride, kStrideOfThreads);
    for (int64_t count = 1; count <= kLines; count += stride) {
      for (const int64_t first : {int64_t{0}, kLines - count}) {
        const at::Tensor some = operation(x.narrow(0, first, count));
        if (SameBytes(some, all.narrow(0, first, count))) continue;
        differences.push_back(absl::StrCat(count, " lines from ", first, " of ",
                                           width.columns, " with ", threads,
                                           " threads"));
      }
    }
  }
  at::set_num_threads(threads_before);
  return differences;
}

constexpr Width kWidths[] = {{1}, {3}, {8}, {17}, {100}, {1000, 9}, {3072, 23}};
// Enough in one line for libtorch to share it among threads.
constexpr Width kWide = {40000, 69};

using Strings = std::vector<std::string>;

TEST(MapLines, GivesALineItsBitsInAnyCompany) {
  const InPlace functions[] = {
      [](at::Tensor& x) { at::exp_(x); },
      [](at::Tensor& x) { at::log_(x); },
      [](at::Tensor& x) { at::rsqrt_(x); },
      [](at::Tensor& x) { at::silu_(x); },
      [](at::Tensor& x) { at::gelu_(x); },
      [](at::Tensor& x) { at::sigmoid_(x); },
      [](at::Tensor& x) { at::tanh_(x); },
  };
  for (const InPlace function : functions) {
    for (const Width& width : kWidths) {
      EXPECT_EQ(Differences(
                    [&](const at::Tensor& x) { return MapLines(x, function); },
                    width),
                Strings());
    }
  }
}

TEST(MapLines, ComputesTheFunctionAndLeavesItsInput) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {5}, {3, 4097}, {2, 3, 4}}) {
    const at::Tensor x = at::randn(shape);
    const at::Tensor before = x.clone();
    const at::Tensor y = MapLines(x, [](at::Tensor& b) { at::tanh_(b); });
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_TRUE(at::allclose(y, at::tanh(x), 1e-6, 1e-7));
    EXPECT_TRUE(at::equal(x, before));
  }
}

at::Tensor SumOf(const at::Tensor& lines) { return lines.sum(-1, true); }

TEST(ReduceLines, GivesALineItsBitsInAnyCompany) {
  const auto sum = [](const at::Tensor& x) {
    return ReduceLines(x, {1}, SumOf);
  };
  const auto norm = [](const at::Tensor& x) {
    return ReduceLines(x, {1}, [](const at::Tensor& lines) {
      return at::linalg_vector_norm(lines, 2, at::IntArrayRef{1}, true);
    });
  };
  for (const Operation& reduction : {Operation(sum), Operation(norm)}) {
    for (const Width& width : kWidths) {
      EXPECT_EQ(Differences(reduction, width), Strings());
    }
    EXPECT_EQ(Differences(reduction, kWide), Strings());
  }
}

TEST(ReduceLines, ReducesAnyDimensions) {
  const at::Tensor x = at::randn({3, 4, 5});
  const auto close = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && at::allclose(a, b, 1e-5, 1e-6);
  };
  EXPECT_TRUE(close(ReduceLines(x, {1}, SumOf), x.sum(1, true)));
  EXPECT_TRUE(close(ReduceLines(x, {0, 2}, SumOf),
                    x.sum(at::IntArrayRef({0, 2}), true)));
  EXPECT_TRUE(close(ReduceLines(x, {}, SumOf), at::sum(x).reshape({1, 1, 1})));
  const at::Tensor number = at::randn({});
  EXPECT_TRUE(at::equal(ReduceLines(number, {}, SumOf), number));
}

// The row rule is of one number of threads.
TEST(LinearLines, GivesALineItsBitsInAnyCompany) {
  for (const Width& in : {Width{5}, {17}, {257, 9}, {1000, 23}}) {
    for (const int64_t out : {1, 3, 8, 17, 24, 100}) {
      const at::Tensor out_in = at::randn({out, in.columns});
      const at::Tensor in_out = at::randn({in.columns, out});
      EXPECT_EQ(Differences(
                    [&](const at::Tensor& x) {
                      return LinearLines(x, out_in, RowRule());
                    },
                    in, Reference::kSameThreads),
                Strings())
          << "to " << out;
      EXPECT_EQ(Differences(
                    [&](const at::Tensor& x) {
                      return LinearLines(x, in_out.t(), RowRule());
                    },
                    in, Reference::kSameThreads),
                Strings())
          << "to " << out << ", transposed";
    }
  }
}

TEST(LinearLines, FollowsTheRuleOfBlocksOf64) {
  const at::Tensor x = at::randn({2, 50, 24});
  const at::Tensor weight = at::randn({7, 24});
  const at::Tensor y =
      LinearLines(x, weight, {.kind = RowRule::Kind::kExactly64});
  EXPECT_TRUE(at::allclose(y, at::linear(x, weight), 1e-5, 1e-5));
}

TEST(LinearLines, TakesAVector) {
  const at::Tensor x = at::randn({24});
  const at::Tensor weight = at::randn({7, 24});
  const at::Tensor y = LinearLines(x, weight, RowRule());
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{7}));
  EXPECT_TRUE(at::allclose(y, at::linear(x, weight), 1e-5, 1e-5));
}

TEST(SoftmaxLines, GivesALineItsBitsInAnyCompany) {
  for (const Width& width : kWidths) {
    EXPECT_EQ(Differences(SoftmaxLines, width), Strings());
    EXPECT_EQ(Differences(LogSoftmaxLines, width), Strings());
  }
  EXPECT_EQ(Differences(SoftmaxLines, kWide), Strings());
  EXPECT_EQ(Differences(LogSoftmaxLines, kWide), Strings());
}

}  // namespace
}  // namespace phitap
