// Tensors that callers keep on the server: steering vectors, dictionaries,
// means.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
#define PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/host_tensor.h"

namespace phitap {

class StateFolder;

struct NamedTensorsOptions {
  // Where tensors are kept over a restart, one safetensors file each; empty
  // keeps them in memory alone.
  std::string state_dir;
  // Bytes of all tensors together, whoever owns them.
  int64_t max_bytes = int64_t{4} << 30;
  // Outlives the store.
  const Clock* clock = nullptr;
  // Called, on a thread of the store, where a file could not be written or
  // removed: the error names it.
  std::function<void(const absl::Status&)> on_file_error;
};

struct TensorOwner {
  // Empty for all callers that have no name; see CheckIdentityName.
  std::string name;
  // Bytes of its tensors.
  int64_t max_bytes = std::numeric_limits<int64_t>::max();
};

struct NamedTensor {
  // Empty for that of callers without a name.
  std::string owner_name;
  std::string name;
  HostTensor value;
  // When it was put.
  absl::Time create_time;
  // Whether it outlives the server: false without a state directory, and while
  // its file could not be written.
  bool persistent = false;
};

class NamedTensors;

// The tensors of one owner: it finds, lists, counts and hints at no others.
// Thread-safe; copies show the same tensors. The store outlives them. A tensor
// that was found lives on, whatever happens to its name; the bytes of one that
// has been replaced or deleted since are not counted any more.
class OwnedTensors {
 public:
  // Keeps `value` under `name`, replacing what was there; returns at once, the
  // file is written behind. INVALID_ARGUMENT against `field` for a name that is
  // none; RESOURCE_EXHAUSTED where the bytes do not fit, with sizes only of
  // what is the owner's.
  absl::Status Put(absl::string_view name, HostTensor value,
                   absl::string_view field) const;
  // Whether Put would refuse the name or so many bytes: before an upload.
  absl::Status CheckPut(absl::string_view name, int64_t size_bytes,
                        absl::string_view field) const;
  // NOT_FOUND against `field`, with the nearest names.
  absl::StatusOr<HostTensor> Find(absl::string_view name,
                                  absl::string_view field) const;
  // NOT_FOUND as Find. Its file is removed behind.
  absl::Status Delete(absl::string_view name, absl::string_view field) const;
  // By name, those whose names begin with `prefix`; values share their bytes.
  std::vector<NamedTensor> List(absl::string_view prefix) const;

  // The tensor and when it was put. NOT_FOUND as Find.
  absl::StatusOr<NamedTensor> Get(absl::string_view name,
                                  absl::string_view field) const;

  // Of the owner's tensors, and what they may take.
  int64_t used_bytes() const;
  int64_t max_bytes() const;

 private:
  friend class NamedTensors;
  OwnedTensors(NamedTensors* store, TensorOwner owner)
      : store_(store), owner_(std::move(owner)) {}

  // With the store's mutex held.
  absl::Status CheckFits(absl::string_view name, int64_t size_bytes,
                         absl::string_view field) const;

  NamedTensors* store_;
  TensorOwner owner_;
};

// All tensors, by owner. Thread-safe.
class NamedTensors {
 public:
  // Reads what the state directory holds (mapped, not copied). An error names
  // the file and what is wrong with it; RESOURCE_EXHAUSTED where the files hold
  // more than `max_bytes`.
  static absl::StatusOr<std::unique_ptr<NamedTensors>> Open(
      NamedTensorsOptions options);
  // Blocks until what was put is on disk; what could not be written before is
  // tried once more.
  ~NamedTensors();

  OwnedTensors Of(TensorOwner owner) {
    return OwnedTensors(this, std::move(owner));
  }

  // Of all owners.
  int64_t used_bytes() const;
  int64_t max_bytes() const { return options_.max_bytes; }

 private:
  friend class OwnedTensors;

  struct Shelf {
    std::map<std::string, NamedTensor, std::less<>> tensors;
    int64_t used_bytes = 0;
  };
  struct FileName {
    std::string owner_name;
    std::string name;
    bool operator==(const FileName&) const = default;
  };

  NamedTensors(NamedTensorsOptions options,
               std::unique_ptr<StateFolder> folder);

  // With mutex_ held: what the owner has, empty where it never had any.
  const Shelf& ShelfOf(const std::string& owner_name) const;
  // With mutex_ held: has the file brought up to what is kept.
  void WriteBehind(FileName file);

  // With mutex_ held: what is kept under the tensor's name, if it is this one.
  NamedTensor* FindKept(const NamedTensor& tensor);

  // The writing thread: until it is told to stop and nothing is left to write.
  void WriteFiles();
  // Blocks until there is one; none once the thread may end.
  std::optional<FileName> NextFile();
  void WriteFile(const FileName& file);
  // What is kept was written, so there may be room for others, too.
  void TakeWritten(const NamedTensor& tensor);
  // What is kept could not be written.
  void GiveUpFile(const NamedTensor& tensor, const absl::Status& error);
  void RemoveFile(const FileName& file);

  const NamedTensorsOptions options_;
  // Null without a state directory. The writing thread's, once it runs.
  const std::unique_ptr<StateFolder> folder_;

  mutable std::mutex mutex_;  // Guards the next six.
  // By the owner's name.
  std::map<std::string, Shelf> shelves_;
  int64_t used_bytes_ = 0;
  // Files that are not what is kept, each once.
  std::deque<FileName> unwritten_;
  // Those that could not be written, and when they are tried again at the
  // earliest.
  std::deque<FileName> given_up_;
  absl::Time retry_time_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread writer_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
