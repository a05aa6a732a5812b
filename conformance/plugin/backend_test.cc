// Plug-ins are checked before anything is called.

#include "conformance/plugin/backend.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "conformance/plugin/test_backend.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(backend)

namespace {

/// The message with which loading the faulty plug-in fails, without what names it.
std::string refusal(const char* fault) {
  const Environment chosen("BDLM_FAULT", fault);
  try {
    static_cast<void>(faulty_backend());
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string where = "plug-in " + faulty_plugin();
    BOOST_TEST(text.find(where) == 0U);
    return text.substr(std::min(where.size(), text.size()));
  }
  return "loaded";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_right_plug_in_loads_with_its_contract) {
  const std::unique_ptr<Backend> loaded = faulty_backend();
  BOOST_TEST(loaded->name() == "faulty");
  BOOST_TEST(loaded->about() == "plain fp32 loops on the host");
  BOOST_TEST(loaded->on_host());
  BOOST_TEST(loaded->contract().name == "example-fp32");
  Contract fp32 = builtin_contract("fp32");
  fp32.name = loaded->contract().name;
  BOOST_TEST((loaded->contract() == fp32));
  loaded->judge_by(builtin_contract("bf16"));
  BOOST_TEST(loaded->contract().name == "bf16");
  BOOST_TEST(!faulty_backend(true)->on_host());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_one_is_said) {
  BOOST_TEST(refusal("none") == "loaded");
  BOOST_TEST(
      refusal("bad-version") ==
      join(" has version 1000 of the plug-in interface; this program has ", BDLM_PLUGIN_VERSION));
  BOOST_TEST(refusal("small-struct") ==
             join(": size is 8 bytes; this version's bdlm_backend has ", sizeof(bdlm_backend)));
  BOOST_TEST(refusal("bad-name") ==
             ": name is 'two words'; allowed are letters, digits, '_', '-' and '.'");
  BOOST_TEST(refusal("bad-contract").find(": contract: ") == 0U);
  BOOST_TEST(refusal("half-memory") ==
             ": allocate, release, copy_in and copy_out are all given or all NULL");
  BOOST_TEST(refusal("unknown-device") == ": device.type is 99; known are 1 (host), 2 (CUDA)");
  BOOST_TEST(refusal("create-fails") == ": create returned BDLM_FAILED: no device");
}

BOOST_AUTO_TEST_CASE(files_that_are_no_plug_ins_are_refused) {
  BOOST_CHECK_EXCEPTION(Backend::load("./no-such-file.so"), InputError, [](const Error& error) {
    return error.what() == std::string("plug-in ./no-such-file.so does not exist");
  });
  // A name without a folder is a file here, not one of the system's libraries.
  BOOST_CHECK_EXCEPTION(Backend::load("libm.so.6"), InputError, [](const Error& error) {
    return error.what() == std::string("plug-in libm.so.6 does not exist");
  });
  const std::string path = "backend_test_no_library.so";
  std::ofstream(path) << "#include <a library>\n";
  BOOST_CHECK_EXCEPTION(Backend::load(path), InputError, [&](const Error& error) {
    return std::string(error.what()).find("plug-in " + path + " cannot be loaded: ") == 0;
  });
  std::remove(path.c_str());
}

BOOST_AUTO_TEST_CASE(statuses_have_names_and_messages_are_one_line) {
  BOOST_TEST(name(BDLM_COMMUNICATION) == "BDLM_COMMUNICATION");
  BOOST_TEST(name(static_cast<bdlm_status>(17)) == "status 17");
  const std::unique_ptr<Backend> loaded = faulty_backend();
  BOOST_TEST(loaded->status(BDLM_OK).ok());
  BOOST_TEST(Backend::missing_entry().null_entry);
  BOOST_CHECK_THROW(loaded->check("copy_in", BDLM_FAILED), BackendError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
