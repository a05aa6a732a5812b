// What a backend does with its tensors that it may not is seen, and said exactly.

#include "conformance/plugin/tensors.h"

#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <limits>
#include <set>

#include "conformance/plugin/poison.h"
#include "conformance/plugin/test_backend.h"
#include "reference/base/philox.h"
#include "reference/base/small_float.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(tensors)

namespace {

/// Random numbers of a format.
std::vector<double> random_values(int64_t count, Dtype dtype, uint32_t tensor = 0) {
  const Philox random(11, tensor);
  std::vector<double> out(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = round_to(random.gaussian(i), dtype);
  }
  return out;
}

template <class T>
T* first(const bdlm_tensor* tensor) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(tensor->data) + tensor->byte_offset);
}

sigjmp_buf back;
const void* touched = nullptr;
void on_fault(int, siginfo_t* info, void*) {
  touched = info->si_addr;
  siglongjmp(back, 1);
}

/// What describe_address says of the access that stops `f`; "" where nothing stops it.
template <class F>
std::string stopped(Access access, const F& f) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
  char text[200] = "";
  if (sigsetjmp(back, 1) == 0) {
    f();
  } else {
    CallTensors::describe_address(touched, access, text, sizeof text);
  }
  sigaction(SIGSEGV, &before, nullptr);
  return text;
}

const TensorLayout layouts[] = {
    {}, {3, 0, 0, false, 2}, {0, 36, 0, true, 3}, {5, 2, 256, false, 4}, {8, 250, 24, true, 5}};

struct BothPlaces {
  std::unique_ptr<Backend> host = faulty_backend(false);
  std::unique_ptr<Backend> device = faulty_backend(true);
};

}  // namespace

BOOST_AUTO_TEST_CASE(poison_is_a_signalling_nan_of_every_format_and_no_two_seeds_agree) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64}) {
    const bdlm_dtype plugin = plugin_dtype(dtype);
    const FormatBits format = format_bits(dtype);
    const uint64_t fraction_mask = (uint64_t{1} << format.fraction) - 1;
    const uint64_t quiet = uint64_t{1} << (format.fraction - 1);
    const int exponent_bits = plugin.bits - 1 - format.fraction;
    int64_t same = 0;
    for (uint64_t i = 0; i < 4096; ++i) {
      const uint64_t bits = poison_bits(plugin, 7, i);
      BOOST_REQUIRE_EQUAL(bits >> format.fraction & ((uint64_t{1} << exponent_bits) - 1),
                          (uint64_t{1} << exponent_bits) - 1);
      BOOST_REQUIRE((bits & fraction_mask) != 0);
      BOOST_REQUIRE((bits & quiet) == 0);
      BOOST_REQUIRE(plugin.bits == 64 || bits >> plugin.bits == 0);
      same += bits == poison_bits(plugin, 8, i) ? 1 : 0;
    }
    // bf16 has 2 * 63 such numbers.
    BOOST_TEST(same < 100);
  }
}

BOOST_FIXTURE_TEST_CASE(values_lie_where_shape_strides_and_offset_say, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    for (const TensorLayout& layout : layouts) {
      CallTensors tensors(*backend, layout);
      const std::vector<double> values = random_values(5 * 3 * 4, Dtype::bf16);
      const bdlm_tensor* t = tensors.input("q", values, Dtype::bf16, {5, 3, 4});
      BOOST_TEST(t->device.type == (backend == host.get() ? 1 : 2));
      BOOST_TEST(t->ndim == 3);
      BOOST_TEST(reinterpret_cast<uintptr_t>(first<uint16_t>(t)) % 256 ==
                 static_cast<uintptr_t>(layout.misalignment));
      BOOST_TEST((t->strides == nullptr) == (layout.row_padding == 0 && !layout.explicit_strides));
      const int64_t stride = t->strides == nullptr ? 12 : t->strides[0];
      BOOST_TEST(stride == 12 + layout.row_padding);
      for (int64_t i = 0; i < 60; ++i) {
        const uint16_t bits = first<uint16_t>(t)[i / 12 * stride + i % 12];
        BOOST_REQUIRE_EQUAL(bf16_value(bits), values[i]);
      }
      BOOST_TEST(tensors.read(t) == values, boost::test_tools::per_element());
      BOOST_TEST(tensors.check() == "");
    }
  }
}

BOOST_FIXTURE_TEST_CASE(host_tensors_end_at_a_page_nobody_may_touch, BothPlaces) {
  for (const int64_t misalignment : {0, 36}) {
    for (const int64_t count : {64, 100, 1024, 5000}) {
      CallTensors tensors(*host, {0, misalignment, 0, false, 1});
      const bdlm_tensor* o = tensors.output("o", Dtype::fp32, {count});
      const auto end = reinterpret_cast<uintptr_t>(first<float>(o) + count);
      const uintptr_t gap = (4096 - end % 4096) % 4096;
      BOOST_TEST(gap < 256);
      BOOST_TEST((gap == 0) == ((misalignment + 4 * count) % 256 == 0));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(stray_accesses_on_the_host_stop_and_are_named, BothPlaces) {
  CallTensors tensors(*host);
  const std::vector<double> values = random_values(64 * 2 * 8, Dtype::fp32);
  const bdlm_tensor* q = tensors.input("q", values, Dtype::fp32, {64, 2, 8});
  const bdlm_tensor* o = tensors.output("o", Dtype::fp32, {64, 2, 8});
  const int64_t* array = tensors.host_array("intervals", std::vector<int64_t>(128, 5));
  auto* q_data = first<volatile float>(q);
  auto* o_data = first<volatile float>(o);
  BOOST_TEST(stopped(Access::write, [&] { q_data[1] = q_data[1]; }) == "");
  tensors.protect();
  BOOST_TEST(stopped(Access::write, [&] { q_data[1] = 2; }) ==
             "wrote to input q, at byte 4 of 4096");
  BOOST_TEST(stopped(Access::write, [&] { o_data[1024] = 2; }) ==
             "wrote behind output o, at byte 4096 of 4096");
  BOOST_TEST(stopped(Access::unknown, [&] { o_data[1025 + (1 << 17)] = 2; }) ==
             "read or wrote behind output o, at byte 528388 of 4096");
  BOOST_TEST(stopped(Access::read, [&] { static_cast<void>(o_data[-1025]); }) ==
             "read before output o, at byte -4100 of 4096");
  BOOST_TEST(stopped(Access::write, [&] { const_cast<volatile int64_t*>(array)[2] = 7; }) ==
             "wrote to array intervals, at byte 16 of 1024");
  tensors.end_host_arrays();
  BOOST_TEST(stopped(Access::read, [&] {
               static_cast<void>(*const_cast<volatile int64_t*>(array));
             }) == "read array intervals, at byte 0 of 1024, after the entry had returned");
  BOOST_TEST(tensors.check() ==
             "output o: 1024 of 1024 elements were left unwritten, first at (0, 0, 0)");
  BOOST_TEST(stopped(Access::write, [&] { q_data[1] = 2; }) == "");
  char text[32] = "x";
  CallTensors::describe_address(&text, Access::write, text, sizeof text);
  BOOST_TEST(text == std::string());
  CallTensors::describe_address(first<float>(q), Access::write, text, 10);
  BOOST_TEST(text == std::string("wrote to "));
}

BOOST_FIXTURE_TEST_CASE(every_violation_has_its_name, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    for (const TensorLayout& layout : layouts) {
      const std::vector<double> values = random_values(5 * 3 * 7, Dtype::bf16);
      const auto after = [&](const auto& edit) {
        CallTensors tensors(*backend, layout);
        const bdlm_tensor* q = tensors.input("q", values, Dtype::bf16, {5, 3, 7});
        const bdlm_tensor* o = tensors.output("o", Dtype::bf16, {5, 3, 7});
        const bdlm_tensor* lse = tensors.in_out("lse", values, Dtype::fp32, {5, 21});
        auto* workspace = static_cast<std::byte*>(tensors.workspace(100));
        BOOST_TEST(reinterpret_cast<uintptr_t>(workspace) % 256 == 0U);
        const int64_t stride = 21 + layout.row_padding;
        for (int64_t i = 0; i < 105; ++i) {
          first<uint16_t>(o)[i / 21 * stride + i % 21] = round_to_bf16(values[104 - i]);
        }
        std::memset(workspace, 0, 100);
        edit(first<uint16_t>(q), first<uint16_t>(o), first<float>(lse), workspace);
        return tensors.check();
      };
      const int64_t end = 4 * (21 + layout.row_padding) + 21;  // of the elements
      const std::string of_extent = join(" of ", 2 * end);
      using Bf16 = uint16_t*;
      BOOST_TEST(after([&](Bf16, Bf16, float*, std::byte*) {}) == "");
      BOOST_TEST(after([&](Bf16 q, Bf16, float*, std::byte*) { q[end - 1] ^= 1; }) ==
                 join("input q was written, first at byte ", 2 * end - 2, of_extent));
      BOOST_TEST(after([&](Bf16, Bf16 o, float*, std::byte*) { o[end] = 0; }) ==
                 join("bytes behind output o were written, first at byte ", 2 * end, of_extent));
      BOOST_TEST(after([&](Bf16, Bf16 o, float*, std::byte*) { o[-1] = 0; }) ==
                 "bytes before output o were written, first at byte -2" + of_extent);
      BOOST_TEST(after([&](Bf16 q, Bf16, float*, std::byte*) { q[-1] = 0; }) ==
                 "bytes before input q were written, first at byte -2" + of_extent);
      BOOST_TEST(after([&](Bf16, Bf16, float* lse, std::byte*) { lse[-3] = 0; }) ==
                 join("bytes before state lse were written, first at byte -12 of ", 4 * end));
      BOOST_TEST(after([&](Bf16, Bf16, float*, std::byte* w) { w[100] = std::byte{9}; }) ==
                 "bytes behind workspace of the call were written, first at byte 100 of 100");
      if (layout.row_padding > 0) {
        BOOST_TEST(after([&](Bf16, Bf16 o, float*, std::byte*) { o[21] = 0; }) ==
                   "padding between rows of output o were written, first at byte 42" + of_extent);
      }
      // An input's change is graver than a stray byte.
      BOOST_TEST(after([&](Bf16 q, Bf16 o, float*, std::byte*) {
                   o[-1] = 0;
                   q[0] ^= 1;
                 }) == "input q was written, first at byte 0" + of_extent);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(unwritten_elements_are_counted_and_a_computed_nan_is_none, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64}) {
      CallTensors tensors(*backend, {2, 0, 0, false, 21});
      const bdlm_tensor* o = tensors.output("o", dtype, {2, 3, 4});
      const int64_t bytes = plugin_dtype(dtype).bits / 8;
      // All ones: a quiet NaN with every payload bit.
      for (int64_t i = 0; i < 24; ++i) {
        if (i != 10 && i < 20) {
          std::memset(first<std::byte>(o) + (i / 12 * 14 + i % 12) * bytes, 0xff, bytes);
        }
      }
      BOOST_TEST(tensors.check() ==
                 "output o: 5 of 24 elements were left unwritten, first at (0, 2, 2)");
      BOOST_TEST(tensors.check(CallTensors::After::failure) == "");
      BOOST_TEST(tensors.check(CallTensors::After::refusal) ==
                 join("output o was written, first at byte 0 of ", 26 * bytes,
                      ", although the entry returned BDLM_UNSUPPORTED"));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_refusal_may_not_touch_a_state_either, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    CallTensors tensors(*backend);
    const bdlm_tensor* o = tensors.in_out("o", random_values(6, Dtype::fp32), Dtype::fp32, {2, 3});
    BOOST_TEST(tensors.check(CallTensors::After::refusal) == "");
    first<float>(o)[5] = 100;
    BOOST_TEST(tensors.check(CallTensors::After::success) == "");
    // 100 and a small number differ in their highest bytes alone, or not.
    BOOST_TEST(tensors.check(CallTensors::After::refusal).find("state o was written, first at") ==
               0U);
  }
}

BOOST_FIXTURE_TEST_CASE(tensors_without_elements_have_an_address_and_nothing_to_write, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    CallTensors tensors(*backend, {3, 0, 0, false, 1});
    const bdlm_tensor* none = tensors.output("o", Dtype::fp32, {0, 3, 4});
    const bdlm_tensor* empty = tensors.output("lse", Dtype::fp32, {4, 0});
    BOOST_TEST(none->data != nullptr);
    BOOST_TEST(tensors.read(none).empty());
    BOOST_TEST(tensors.read(empty).empty());
    BOOST_TEST(tensors.workspace(0) == nullptr);
    BOOST_TEST(tensors.check() == "");
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_no_number_of_the_format_is_an_error, BothPlaces) {
  CallTensors tensors(*host);
  const std::vector<double> tenth{1, 0.1};
  BOOST_CHECK_EXCEPTION(tensors.input("q", tenth, Dtype::bf16, {2}), InputError,
                        [](const InputError& error) {
                          return error.what() == std::string(
                                                     "input q: value 1 is 0.1, which is no number "
                                                     "of its format of 16 bits");
                        });
  BOOST_CHECK_THROW(tensors.input("q", std::vector<double>{1e300}, Dtype::fp32, {1}), InputError);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64}) {
    const auto values = tensors.read(
        tensors.input("x", std::vector<double>{infinity, nan, -infinity, -0.0}, dtype, {4}));
    BOOST_TEST((values[0] == infinity && values[1] != values[1] && values[2] == -infinity));
    BOOST_TEST((values[3] == 0 && std::signbit(values[3])));
  }
}

BOOST_FIXTURE_TEST_CASE(whole_numbers_and_bytes_come_back, BothPlaces) {
  for (const Backend* backend : {host.get(), device.get()}) {
    CallTensors tensors(*backend, {4, 8, 0, false, 2});
    const std::vector<int64_t> labels{-1, 3, int64_t{1} << 40};
    const bdlm_tensor* t = tensors.input("labels", labels, {3});
    BOOST_TEST((t->dtype.code == 0 && t->dtype.bits == 64));
    BOOST_TEST(t->strides == nullptr);
    const std::vector<std::byte> bytes = tensors.bytes(t);
    BOOST_REQUIRE(bytes.size() == 24U);
    BOOST_TEST(std::memcmp(bytes.data(), labels.data(), 24) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_device_without_memory_is_an_error_of_the_backend) {
  const std::unique_ptr<Backend> device = faulty_backend(true);
  {
    CallTensors tensors(*device);
    const Environment full("BDLM_FAULT", "out-of-memory");
    BOOST_CHECK_EXCEPTION(tensors.output("o", Dtype::fp32, {4}), BackendError,
                          [](const BackendError& error) {
                            return error.what() == std::string(
                                                       "allocate returned "
                                                       "BDLM_OUT_OF_MEMORY: the device is "
                                                       "full");
                          });
    BOOST_TEST(tensors.check() == "");
  }
}

BOOST_FIXTURE_TEST_CASE(memory_of_the_device_is_given_back, BothPlaces) {
  void* library = dlopen(faulty_plugin().c_str(), RTLD_NOW | RTLD_NOLOAD);
  BOOST_REQUIRE(library != nullptr);
  const auto blocks = reinterpret_cast<int64_t (*)()>(dlsym(library, "faulty_blocks"));
  {
    CallTensors tensors(*device);
    tensors.output("o", Dtype::fp32, {4});
    tensors.workspace(10);
    // Arrays stay on the host.
    tensors.host_array("intervals", std::vector<int64_t>{1, 2});
    BOOST_TEST(blocks() == 2);
  }
  BOOST_TEST(blocks() == 0);
  dlclose(library);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
