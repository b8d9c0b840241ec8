#include "server/identity/identity_file.h"

#include <utility>

#include "server/base/status_macros.h"
#include "server/identity/private_file.h"

namespace phitap {

absl::StatusOr<std::unique_ptr<IdentityFile>> IdentityFile::Open(
    IdentityFileOptions options) {
  std::unique_ptr<IdentityFile> file(new IdentityFile(std::move(options)));
  const std::string& path = file->options_.path;
  ASSIGN_OR_RETURN(file->text_, ReadPrivateFile(path));
  ASSIGN_OR_RETURN(IdentityTable table,
                   IdentityTable::Parse(*file->text_, path));
  file->table_ = std::make_shared<const IdentityTable>(std::move(table));
  if (file->options_.period != absl::InfiniteDuration()) {
    file->thread_ =
        std::thread([file = file.get()] { file->RereadPeriodically(); });
  }
  return file;
}

IdentityFile::IdentityFile(IdentityFileOptions options)
    : options_(std::move(options)), text_("") {}

IdentityFile::~IdentityFile() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const IdentityTable> IdentityFile::table() const {
  std::lock_guard lock(mutex_);
  return table_;
}

void IdentityFile::Reread() {
  absl::StatusOr<std::string> text = ReadPrivateFile(options_.path);
  {
    std::lock_guard lock(mutex_);
    if (text == text_) return;
    text_ = text;
  }
  absl::Status status = text.status();
  if (text.ok()) {
    absl::StatusOr<IdentityTable> table =
        IdentityTable::Parse(*text, options_.path);
    status = table.status();
    if (table.ok()) {
      auto taken = std::make_shared<const IdentityTable>(*std::move(table));
      std::lock_guard lock(mutex_);
      table_ = std::move(taken);
    }
  }
  if (options_.on_change) options_.on_change(status);
}

void IdentityFile::RereadPeriodically() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.period),
                            [&] { return stopping_; })) {
    lock.unlock();
    Reread();
    lock.lock();
  }
}

}  // namespace phitap
