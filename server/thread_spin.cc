#include "server/thread_spin.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string>

namespace phitap {
namespace {

constexpr char kSpinVariable[] = "GOMP_SPINCOUNT";
// Of rounds; without it 300,000.
constexpr char kSpinCount[] = "5000";

// Empty where it cannot be told.
std::string OwnPath() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length < 0 ? 0 : length);
  return path;
}

}  // namespace

void LimitThreadSpin(char* const* argv) {
  if (std::getenv(kSpinVariable) != nullptr ||
      std::getenv("OMP_WAIT_POLICY") != nullptr) {
    return;
  }
  setenv(kSpinVariable, kSpinCount, /*overwrite=*/1);
  // Returns only where it fails: then threads spin for longer.
  execv(OwnPath().c_str(), argv);
}

}  // namespace phitap
