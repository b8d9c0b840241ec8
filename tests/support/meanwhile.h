// What goes on beside a test, again and again.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_MEANWHILE_H_
#define PHITAP_TESTS_SUPPORT_MEANWHILE_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace phitap {

// Does `work` on a thread of its own, at least once, until it is destroyed.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          do {
            work();
            std::this_thread::yield();
          } while (!done_);
        }) {}
  ~Meanwhile() {
    done_ = true;
    thread_.join();
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_MEANWHILE_H_
