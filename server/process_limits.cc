#include "server/process_limits.h"

#include <sys/resource.h>

namespace phitap {

void TakeAllowedFiles() {
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace phitap
