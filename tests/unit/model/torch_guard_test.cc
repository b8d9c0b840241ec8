#include "server/model/torch_guard.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RunGuarded, ReturnsWhatTheWorkReturns) {
  EXPECT_THAT(RunGuarded([] { return absl::OkStatus(); }), IsOk());
  EXPECT_THAT(RunGuarded([] { return absl::NotFoundError("gone"); }),
              StatusIs(absl::StatusCode::kNotFound, "gone"));
}

TEST(RunGuarded, TurnsALibtorchErrorIntoOneLineWithoutItsBacktrace) {
  const absl::Status status = RunGuarded([] {
    (void)at::ones({2, 3}).matmul(at::ones({2, 3}));
    return absl::OkStatus();
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("cannot be multiplied"),
                                     Not(HasSubstr("Exception raised from")))));
}

TEST(RunGuarded, TellsMemoryThatRanOutFromOtherErrors) {
  EXPECT_THAT(RunGuarded([] {
                (void)at::empty({int64_t{1} << 55});
                return absl::OkStatus();
              }),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("can't allocate memory")));
  EXPECT_THAT(RunGuarded([]() -> absl::Status { throw std::bad_alloc(); }),
              StatusIs(absl::StatusCode::kResourceExhausted, "out of memory"));
}

TEST(RunGuarded, CatchesEveryStandardException) {
  EXPECT_THAT(RunGuarded([]() -> absl::Status {
                throw std::out_of_range("no such tensor");
              }),
              StatusIs(absl::StatusCode::kInternal, "no such tensor"));
}

}  // namespace
}  // namespace phitap
