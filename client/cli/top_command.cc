#include <memory>
#include <optional>
#include <string>

#include "client/cli/activity_rates.h"
#include "client/cli/activity_view.h"
#include "client/cli/commands.h"
#include "client/cli/live_screen.h"
#include "client/cli/proto_json.h"

namespace phitap::cli {
namespace {

constexpr double kLeastInterval_s = 0.1;
constexpr double kMostInterval_s = 3600;

struct TopFlags {
  bool once = false;
  double interval_s = 1;
};

// Shows each message in the form that is asked for.
class TopOutput {
 public:
  // Neither is owned; both must outlive it.
  TopOutput(const TopFlags& flags, Invocation* invocation)
      : once_(flags.once), invocation_(invocation) {
    if (once_ || invocation->flags().json ||
        !invocation->output().interactive) {
      return;
    }
    screen_.emplace([cancellation = invocation->call_options().cancellation] {
      cancellation->Cancel();
    });
  }

  // Returns whether more is wanted.
  bool Show(const v1::WatchActivityResponse& seen) {
    history_.Add(seen);
    if (invocation_->flags().json) {
      once_ ? invocation_->PrintJson(ToJson(seen))
            : invocation_->PrintJsonLine(ToJson(seen));
    } else if (screen_.has_value()) {
      screen_->Draw(Picture());
    } else {
      invocation_->Print(once_ ? Picture() : ActivityLine(history_));
    }
    return !once_;
  }

 private:
  std::string Picture() const {
    return RenderActivity(history_, invocation_->flags().connection.server,
                          invocation_->output());
  }

  const bool once_;
  Invocation* const invocation_;
  ActivityHistory history_;
  std::optional<LiveScreen> screen_;
};

absl::Status Watch(const client::Client& client, const TopFlags& flags,
                   Invocation* invocation) {
  const client::CallOptions options = invocation->call_options();
  TopOutput output(flags, invocation);
  const absl::Status status = client.admin().WatchActivity(
      absl::Seconds(flags.interval_s),
      [&](const v1::WatchActivityResponse& seen) { return output.Show(seen); },
      options);
  // Leaving is how it ends.
  if (absl::IsCancelled(status) && options.cancellation->cancelled()) {
    return absl::OkStatus();
  }
  return status;
}

}  // namespace

void AddTopCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "top",
      "Shows what the server is doing, until q or Ctrl-C (needs the role "
      "admin)");
  auto flags = std::make_shared<TopFlags>();
  command->add_flag("--once", flags->once,
                    "Show it once; rates are means since the server started");
  command
      ->add_option("--interval", flags->interval_s, "Seconds between two looks")
      ->type_name("SECONDS")
      ->check(CLI::Range(kLeastInterval_s, kMostInterval_s))
      ->capture_default_str();
  command->footer(
      "Draws itself anew in place in a terminal; elsewhere one line for each "
      "look,\nor with --json one document a line.\n\n"
      "Examples:\n"
      "  phitap top\n"
      "  phitap top --interval 5 >> load.log\n"
      "  phitap top --once --json | jq .memory");
  command->callback([flags, invocation] {
    invocation->SetWork([flags, invocation](const client::Client& client) {
      return Watch(client, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
