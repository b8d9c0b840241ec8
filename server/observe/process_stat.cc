#include "server/observe/process_stat.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace phitap {
namespace {

// Of /proc/PID/stat, counted from the state, which follows the name in
// parentheses.
constexpr size_t kUserTicks = 11;
constexpr size_t kSystemTicks = 12;
constexpr size_t kStartTicks = 19;
constexpr size_t kResidentPages = 21;

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Duration OfTicks(int64_t ticks) {
  return absl::Seconds(static_cast<double>(ticks) /
                       static_cast<double>(sysconf(_SC_CLK_TCK)));
}

absl::Time MachineStart() {
  for (absl::string_view line : absl::StrSplit(ReadAll("/proc/stat"), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t seconds = 0;
    if (words.size() == 2 && words[0] == "btime" &&
        absl::SimpleAtoi(words[1], &seconds)) {
      return absl::FromUnixSeconds(seconds);
    }
  }
  return absl::UnixEpoch();
}

int64_t CountOpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count - 1;  // The folder itself.
}

}  // namespace

std::optional<ProcessTimes> ParseProcessTimes(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> words =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipWhitespace());
  if (words.size() <= kResidentPages) return std::nullopt;
  ProcessTimes times;
  int64_t user = 0;
  int64_t system = 0;
  if (!absl::SimpleAtoi(words[kUserTicks], &user) ||
      !absl::SimpleAtoi(words[kSystemTicks], &system) ||
      !absl::SimpleAtoi(words[kStartTicks], &times.start_ticks) ||
      !absl::SimpleAtoi(words[kResidentPages], &times.resident_pages)) {
    return std::nullopt;
  }
  times.cpu_ticks = user + system;
  return times;
}

ProcessStat ReadProcessStat() {
  ProcessStat stat;
  if (const std::optional<ProcessTimes> times =
          ParseProcessTimes(ReadAll("/proc/self/stat"))) {
    stat.started_at = MachineStart() + OfTicks(times->start_ticks);
    stat.cpu_time = OfTicks(times->cpu_ticks);
    stat.resident_bytes = times->resident_pages * sysconf(_SC_PAGESIZE);
  }
  stat.open_files = CountOpenFiles();
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    stat.max_files = static_cast<int64_t>(files.rlim_cur);
  }
  return stat;
}

}  // namespace phitap
