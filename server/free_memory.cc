#include "server/free_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace phitap {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A file that holds one number; none where it is missing or says "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ReadAll(path), &number)) return std::nullopt;
  return number;
}

// Of a file of lines "name number" or "name: number kB".
std::optional<int64_t> ReadEntry(const std::string& path,
                                 absl::string_view name) {
  std::istringstream lines(ReadAll(path));
  std::string key;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string unit;
    if (!(words >> key >> number) || key != name) continue;
    words >> unit;
    return unit == "kB" ? number * 1024 : number;
  }
  return std::nullopt;
}

// One version of cgroups: where its files are, and what they are called.
struct CgroupFiles {
  // The line of /proc/self/cgroup begins with "ID:CONTROLLERS:".
  std::string controllers;
  std::string folder;
  std::string limit;
  std::string usage;
  // Of memory.stat: pages that the kernel takes back when it needs them.
  std::string file_pages;
};

const std::vector<CgroupFiles>& CgroupVersions() {
  static const std::vector<CgroupFiles> versions = {
      {"", "/sys/fs/cgroup", "memory.max", "memory.current", "file"},
      {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
       "memory.usage_in_bytes", "total_cache"}};
  return versions;
}

// What is left at `folder`; none where it sets no limit.
std::optional<int64_t> FreeOf(const std::string& folder,
                              const CgroupFiles& files) {
  const std::optional<int64_t> limit =
      ReadNumber(absl::StrCat(folder, "/", files.limit));
  if (!limit.has_value()) return std::nullopt;
  const int64_t usage =
      ReadNumber(absl::StrCat(folder, "/", files.usage)).value_or(0);
  const int64_t file_pages =
      ReadEntry(absl::StrCat(folder, "/memory.stat"), files.file_pages)
          .value_or(0);
  return *limit - std::max<int64_t>(usage - file_pages, 0);
}

// The path of the process in such a hierarchy, "/" where it is not told.
std::string CgroupPath(const std::string& root, const CgroupFiles& files) {
  std::istringstream lines(ReadAll(absl::StrCat(root, "/proc/self/cgroup")));
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() == 3 && parts[1] == files.controllers) return parts[2];
  }
  return "/";
}

// The least that is left of the process's cgroup and those above it. In a
// container the path may be one of the host: then only its root is there.
std::optional<int64_t> FreeOfCgroups(const std::string& root) {
  std::optional<int64_t> least;
  for (const CgroupFiles& files : CgroupVersions()) {
    std::string path = CgroupPath(root, files);
    for (;;) {
      const std::optional<int64_t> free_bytes =
          FreeOf(absl::StrCat(root, files.folder, path), files);
      if (free_bytes.has_value()) {
        least = std::min(least.value_or(*free_bytes), *free_bytes);
      }
      if (path.empty() || path == "/") break;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return least;
}

}  // namespace

MemorySources ProcessMemorySources() {
  rlimit limit = {};
  MemorySources sources;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    sources.address_space_bytes = static_cast<int64_t>(limit.rlim_cur);
  }
  return sources;
}

FreeMemory ReadFreeMemory(const MemorySources& sources) {
  const std::string& root = sources.root;
  FreeMemory least = {
      .size_bytes =
          ReadEntry(absl::StrCat(root, "/proc/meminfo"), "MemAvailable:")
              .value_or(int64_t{4} << 30) -
          sources.mapped_bytes,
      .bound = "physical memory"};
  if (const std::optional<int64_t> of_cgroups = FreeOfCgroups(root)) {
    const int64_t left = *of_cgroups - sources.mapped_bytes;
    if (left < least.size_bytes) {
      least = {.size_bytes = left, .bound = "cgroup"};
    }
  }
  if (sources.address_space_bytes >= 0) {
    const int64_t used =
        ReadEntry(absl::StrCat(root, "/proc/self/status"), "VmSize:")
            .value_or(0);
    const int64_t left = (sources.address_space_bytes - used) / 4 * 3;
    if (left < least.size_bytes) {
      least = {.size_bytes = left, .bound = "address space"};
    }
  }
  least.size_bytes = std::max<int64_t>(least.size_bytes, 0);
  return least;
}

}  // namespace phitap
