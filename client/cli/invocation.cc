#include "client/cli/invocation.h"

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/exit_status.h"

namespace phitap::cli {
namespace {

constexpr int kIndent = 2;
constexpr absl::Duration kBetweenConnections = absl::Milliseconds(100);

std::string ConnectionAdvice(absl::string_view address) {
  return absl::StrCat(
      "  start one:      phitapd --model NAME=CHECKPOINT_FOLDER --listen ",
      address,
      "\n  or name another: phitap --server HOST:PORT, or the "
      "environment variable PHITAP_SERVER\n");
}

}  // namespace

client::CallOptions Invocation::call_options() const {
  return {.timeout = flags_.timeout_s > 0 ? absl::Seconds(flags_.timeout_s)
                                          : absl::InfiniteDuration(),
          .cancellation = cancellation_};
}

Terminal Invocation::output() const {
  return DetectTerminal(STDOUT_FILENO, flags_.color);
}

Terminal Invocation::errors() const {
  return DetectTerminal(STDERR_FILENO, flags_.color);
}

void Invocation::Print(absl::string_view text) const {
  std::cout << text << std::flush;
}

void Invocation::PrintJson(const Json& document) {
  has_printed_json_ = true;
  std::cout << document.dump(kIndent, ' ', /*ensure_ascii=*/false,
                             Json::error_handler_t::replace)
            << std::endl;
}

void Invocation::PrintJsonLine(const Json& line) {
  prints_lines_ = true;
  std::cout << line.dump(-1, ' ', /*ensure_ascii=*/false,
                         Json::error_handler_t::replace)
            << std::endl;
}

absl::StatusOr<client::Client> Invocation::Connect(
    const client::ClientOptions& options) const {
  const absl::Time end = absl::Now() + patience_;
  while (true) {
    absl::StatusOr<client::Client> client = client::Client::Connect(options);
    if (client.ok() || !absl::IsUnavailable(client.status()) ||
        cancellation_->cancelled() || absl::Now() + kBetweenConnections > end) {
      return client;
    }
    absl::SleepFor(kBetweenConnections);
  }
}

int Invocation::Run() {
  if (offline_work_ != nullptr) {
    const absl::Status status = offline_work_();
    return status.ok() ? kExitOk : Fail(status, kExitUsage);
  }
  const absl::StatusOr<client::ClientOptions> options =
      ToClientOptions(flags_.connection);
  if (!options.ok()) return Fail(options.status(), kExitUsage);
  absl::StatusOr<client::Client> client = Connect(*options);
  if (!client.ok()) {
    if (absl::IsInvalidArgument(client.status())) {
      return Fail(client.status(), kExitUsage);
    }
    const int exit_status = Fail(client.status(), kExitNoServer);
    std::cerr << ConnectionAdvice(flags_.connection.server);
    return exit_status;
  }
  const absl::Status status = work_(*client);
  if (status.ok()) return kExitOk;
  if (cancellation_->cancelled()) {
    std::cerr << "phitap: cancelled\n";
    return kExitInterrupted;
  }
  if (absl::IsDeadlineExceeded(status) && flags_.timeout_s > 0) {
    return Fail(
        absl::DeadlineExceededError(absl::StrCat(
            "no full answer within --timeout ", flags_.timeout_s, " s")),
        kExitFailed);
  }
  return Fail(status, kExitFailed);
}

int Invocation::Fail(const absl::Status& status, int exit_status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string message(status.message());
  std::cerr << Painted("phitap:", {.bold = true}, errors().colors) << " "
            << code << ": " << message << std::endl;
  if (flags_.json && !has_printed_json_) {
    const Json error = {{"error", {{"code", code}, {"message", message}}}};
    prints_lines_ ? PrintJsonLine(error) : PrintJson(error);
  }
  return exit_status;
}

}  // namespace phitap::cli
