#include "client/cpp/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/trace_request.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;

TEST(ResolveIndices, CountsNegativeOnesFromTheEnd) {
  EXPECT_THAT(ResolveIndices(Indices({-1, 0, -3}), 5), ElementsAre(4, 0, 2));
}

TEST(ResolveIndices, PutsRangesAfterSingleIndices) {
  v1::IndexSet set = Indices({4});
  v1::IndexRange* range = set.add_ranges();
  range->set_start(-5);
  range->set_stop(-1);
  range->set_step(2);
  EXPECT_THAT(ResolveIndices(set, 5), ElementsAre(4, 0, 2));
}

TEST(ResolvePositions, AreAllWhereNothingIsSelected) {
  EXPECT_THAT(ResolvePositions(v1::Selection(), {7, 8, 9}),
              ElementsAre(0, 1, 2));
}

TEST(ResolvePositions, FindsTokens) {
  v1::Selection selection;
  selection.add_token_ids(9);
  selection.add_token_ids(7);
  EXPECT_THAT(ResolvePositions(selection, {7, 8, 9, 7}), ElementsAre(0, 2, 3));
}

}  // namespace
}  // namespace phitap::client
