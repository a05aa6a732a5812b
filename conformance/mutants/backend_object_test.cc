#include "conformance/mutants/backend_object.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(backend_object)

namespace {

/// Takes long to say who it is, so that others are made meanwhile.
class Slow : public BackendObject {
 public:
  explicit Slow(std::string contract) : contract_(std::move(contract)) {}
  std::string contract() const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return contract_;
  }
  bdlm_status create(void** context) override {
    *context = const_cast<char*>(contract_.c_str());
    return BDLM_OK;
  }

 private:
  std::string contract_;
};

}  // namespace

// Mutants are judged beside each other, each on a thread that makes its own.
BOOST_AUTO_TEST_CASE(objects_made_at_once_are_not_mixed_up) {
  constexpr size_t threads = 4;
  constexpr size_t each = 5;
  std::vector<const bdlm_backend*> made(threads * each);
  {
    std::vector<std::jthread> makers;
    for (size_t t = 0; t < threads; ++t) {
      makers.emplace_back([&, t] {
        for (size_t i = t * each; i < (t + 1) * each; ++i) {
          made[i] = &entries_of("slow", std::make_unique<Slow>(std::to_string(i)));
        }
      });
    }
  }
  BOOST_TEST(std::set(made.begin(), made.end()).size() == made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    void* context = nullptr;
    BOOST_TEST(made[i]->contract == std::to_string(i));
    BOOST_REQUIRE(made[i]->create(&context) == BDLM_OK);
    BOOST_TEST(static_cast<const char*>(context) == std::to_string(i));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
