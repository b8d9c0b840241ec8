// What kept rows cost.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "server/checkpoint/checkpoint.h"
#include "server/model/forward.h"
#include "server/model/hooks.h"
#include "server/model/phi3.h"
#include "server/model/row_states.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/engine.h"

namespace phitap {
namespace {

TEST(KeptRows, HoldTheBytesThatAreCountedForThem) {
  Engine engine({});
  TempFolder folder;
  TinyCheckpoint(TinyKind::kGroupedQueries).Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  const auto model = Phi3::Load(*checkpoint, DType::kF32);
  ASSERT_THAT(model, IsOk());
  for (const int64_t count : {1, 33, 64}) {
    const std::vector<int32_t> ids(count, 5);
    std::vector<int64_t> positions(count);
    std::iota(positions.begin(), positions.end(), 0);
    RowStates states((*model)->spec());
    const ForwardRow row{.ids = ids,
                         .position_ids = positions,
                         .layer_count = 2,
                         .tail_positions = positions,
                         .states = &states};
    const ForwardRow neighbour{
        .ids = ids, .position_ids = positions, .layer_count = 3};
    NoHooks hooks;
    (*model)->Forward({row, neighbour}, {}, hooks);
    EXPECT_EQ(states.size_bytes(), engine.executor().RootBytes(2, count))
        << count;
  }
}

}  // namespace
}  // namespace phitap
