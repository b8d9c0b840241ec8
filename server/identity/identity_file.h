// The identities of a file, as it is now.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_IDENTITY_FILE_H_
#define PHITAP_SERVER_IDENTITY_IDENTITY_FILE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/identity_table.h"

namespace phitap {

struct IdentityFileOptions {
  std::string path;
  // Time between two looks at it; infinite leaves them to Reread.
  absl::Duration period = absl::Seconds(2);
  // Called once for each change of the file, with OK where it was taken over
  // and else with why the identities from before stay; may be null.
  std::function<void(const absl::Status&)> on_change;
};

// Thread-safe.
class IdentityFile {
 public:
  // INVALID_ARGUMENT or what the system says, with the file's name: see
  // IdentityTable::Parse. FAILED_PRECONDITION for a file that others on the
  // machine may read, or its group change.
  static absl::StatusOr<std::unique_ptr<IdentityFile>> Open(
      IdentityFileOptions options);
  ~IdentityFile();

  std::shared_ptr<const IdentityTable> table() const;

  // Takes over what the file holds, if that is not what it held before.
  void Reread();

 private:
  explicit IdentityFile(IdentityFileOptions options);
  void RereadPeriodically();

  const IdentityFileOptions options_;
  mutable std::mutex mutex_;  // Guards the next four.
  std::shared_ptr<const IdentityTable> table_;
  // Of the last look: the text, or why there is none.
  absl::StatusOr<std::string> text_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_IDENTITY_FILE_H_
