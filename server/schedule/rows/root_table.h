// Rows of earlier waves whose values rows of later waves go on from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_ROOT_TABLE_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_ROOT_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/rows/compared_row.h"

namespace phitap {

// What a kept row holds: see Executor::RootBytes.
using RootBytesOf = std::function<int64_t(
    const std::string& executor, int layer_count, int64_t token_count)>;

struct ForgottenRoot {
  std::string executor;
  RootId root = kNoRoot;
};

// Only runs of one key have values in common.
struct SharingKey {
  // Empty where callers share.
  std::string caller;
  // Its key in the scheduler: TracePlan::model.
  std::string executor;
  Attention attention = Attention::kSdpa;
  bool long_factors = false;

  friend bool operator==(const SharingKey&, const SharingKey&) = default;
};

struct KeptRoot {
  RootId id = kNoRoot;
  SharingKey key;
  std::vector<int32_t> ids;
  std::vector<int64_t> position_ids;
  std::vector<int64_t> hidden_positions;
  std::vector<WriteExtent> writes;
  // Layers that it has; of the last one the residual stream only at these
  // positions.
  int layer_count = 0;
  std::vector<int64_t> tail_positions;
  int64_t size_bytes = 0;
  // Waves under way that go on from it.
  int user_count = 0;
  // How often the table has grown older since it was used.
  int age = 0;
  // Whether the wave that makes it is still under way.
  bool pending = true;

  ComparedRow Compared() const {
    return {.sequence = {.ids = ids,
                         .position_ids = position_ids,
                         .hidden_positions = hidden_positions},
            .writes = writes};
  }
};

// At most so many bytes at any time, those of waves under way included; what
// was used longest ago gives way first, never what a wave under way uses.
// Thread-compatible.
class RootTable {
 public:
  // A root goes as the table grows older for the time after these without it
  // having been used.
  static constexpr int kMostAge = 9;

  RootTable(int64_t max_bytes, RootBytesOf bytes_of);

  // Those that a row may go on from, the last used one first. Valid until the
  // next change.
  std::vector<const KeptRoot*> Find(const SharingKey& key) const;

  // A wave goes on from it; ended by Release.
  void Use(RootId root);
  void Release(RootId root);

  // Names what a wave will make of `row` as far as `reach`; it then holds its
  // place among the bytes until Settle. kNoRoot where it is not worth keeping,
  // does not fit, or is there already, which then counts as used.
  RootId Reserve(const SharingKey& key, const ComparedRow& row,
                 const Reach& reach);
  enum class Fate { kKept, kLost };
  // What became of a reserved root. A kept one takes the place of those that
  // have nothing more than it.
  void Settle(RootId root, Fate fate);

  // Time has passed: forgets what nobody has used for long, such as what
  // callers leave that are gone.
  void GrowOlder();

  // Those of an executor that goes, which no wave uses any more.
  void ForgetAll(const std::string& executor);

  // Of those that were kept and gave way.
  std::vector<ForgottenRoot> TakeForgotten();

  int64_t size_bytes() const { return size_bytes_; }

 private:
  using Roots = std::vector<std::unique_ptr<KeptRoot>>;

  Roots::iterator Position(RootId root);
  // Removes it, and says so if an executor has it.
  void Forget(Roots::iterator position);
  // Whether `bytes` fit, once others have given way.
  bool MakeRoom(int64_t bytes);

  const int64_t max_bytes_;
  const RootBytesOf bytes_of_;
  // The last used one last.
  Roots roots_;
  std::vector<ForgottenRoot> forgotten_;
  RootId next_id_ = 0;
  int64_t size_bytes_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_ROOT_TABLE_H_
