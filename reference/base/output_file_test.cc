#include "reference/base/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(output_file)

namespace {

using testing::contents, testing::has, testing::message;

namespace fs = std::filesystem;

struct Directory : testing::Directory {
  std::string file(const char* name) const { return (path / name).string(); }
  int64_t entries() const {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
};

/// Gives up root's rights while it lives. Tests that name real devices run like this: should the
/// code under test ever replace a device, it must fail to, rather than take it from the whole
/// machine.
class Unprivileged {
 public:
  Unprivileged() : before_(::geteuid()) {
    if (before_ == 0) {
      BOOST_REQUIRE(::seteuid(65534) == 0);
    }
    // A failing REQUIRE would skip the destructor, so the rights go back first.
    const bool safe = ::geteuid() != 0 && ::faccessat(AT_FDCWD, "/dev", W_OK, AT_EACCESS) != 0;
    if (!safe && before_ == 0) {
      static_cast<void>(::seteuid(0) == 0);
    }
    BOOST_REQUIRE(safe);
  }
  ~Unprivileged() {
    if (before_ == 0 && ::seteuid(0) != 0) {
      std::abort();
    }
  }

 private:
  uid_t before_;
};

BOOST_AUTO_TEST_CASE(a_file_appears_only_when_complete) {
  const Directory dir;
  const std::string path = dir.file("a.json");
  {
    OutputFile file(path);
    file.write("one ");
    file.write("two");
    BOOST_TEST(file.bytes() == 7);
    BOOST_TEST(!fs::exists(path));
    BOOST_TEST(dir.entries() == 1);  // the temporary file is in the same directory
    file.commit();
    BOOST_TEST(contents(path) == "one two");
    BOOST_TEST(dir.entries() == 1);
    BOOST_CHECK_THROW(file.write("x"), LogicError);
    BOOST_CHECK_THROW(file.commit(), LogicError);
  }
  BOOST_TEST(contents(path) == "one two");
}

BOOST_AUTO_TEST_CASE(large_and_empty_files) {
  const Directory dir;
  std::string data(3'000'001, 'x');
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  OutputFile file(dir.file("a"));
  for (size_t at = 0, step = 1; at < data.size(); at += step, step = step * 2 + 1) {
    file.write(std::string_view(data).substr(at, step));
  }
  file.commit();
  BOOST_TEST((contents(dir.file("a")) == data));
  write_file(dir.file("b"), "");
  BOOST_TEST(fs::exists(dir.file("b")));
  BOOST_TEST(fs::file_size(dir.file("b")) == 0u);
}

BOOST_AUTO_TEST_CASE(an_abandoned_file_leaves_the_old_contents) {
  const Directory dir;
  write_file(dir.file("a"), "old");
  {
    OutputFile file(dir.file("a"));
    file.write(std::string(2'000'000, 'n'));
  }
  BOOST_TEST(contents(dir.file("a")) == "old");
  BOOST_TEST(dir.entries() == 1);
}

BOOST_AUTO_TEST_CASE(two_writers_do_not_meet) {
  const Directory dir;
  OutputFile first(dir.file("a"));
  OutputFile second(dir.file("a"));
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  BOOST_TEST(contents(dir.file("a")) == "second");
  BOOST_TEST(dir.entries() == 1);
}

BOOST_AUTO_TEST_CASE(permissions_and_links_stay) {
  const Directory dir;
  const std::string path = dir.file("a");
  write_file(path, "1");
  BOOST_REQUIRE(::chmod(path.c_str(), 0640) == 0);
  fs::create_symlink("a", dir.file("link"));
  write_file(dir.file("link"), "2");
  BOOST_TEST(contents(path) == "2");
  BOOST_TEST(fs::is_symlink(dir.file("link")));
  struct stat state = {};
  BOOST_REQUIRE(::stat(path.c_str(), &state) == 0);
  BOOST_TEST((state.st_mode & 07777) == 0640u);
  // A new file gets what the umask leaves, not the owner alone.
  const mode_t mask = ::umask(027);
  write_file(dir.file("new"), "");
  ::umask(mask);
  BOOST_REQUIRE(::stat(dir.file("new").c_str(), &state) == 0);
  BOOST_TEST((state.st_mode & 07777) == 0640u);
}

BOOST_AUTO_TEST_CASE(a_full_device_is_an_error_and_stays_a_device) {
  const Unprivileged unprivileged;
  const std::string text = message<FileError>([] { write_file("/dev/full", "x"); });
  BOOST_TEST(has(text, "/dev/full: cannot write: No space left on device"));
  BOOST_TEST(message<FileError>([] { write_file("/dev/full", std::string(5'000'000, 'x')); }) ==
             text);
  BOOST_TEST(fs::is_character_file("/dev/full"));
  // Through a link as well.
  const Directory dir;
  fs::create_symlink("/dev/full", dir.file("link"));
  BOOST_TEST(has(message<FileError>([&] { write_file(dir.file("link"), "x"); }),
                 "No space left on device"));
  BOOST_TEST(fs::is_symlink(dir.file("link")));
  BOOST_TEST(fs::is_character_file("/dev/full"));
  BOOST_CHECK_NO_THROW(write_file("/dev/null", "x"));
  BOOST_TEST(fs::is_character_file("/dev/null"));
}

// With a file size limit of n bytes, n bytes are written and n + 1 are not.
BOOST_AUTO_TEST_CASE(a_size_limit_is_an_error_and_leaves_nothing) {
  const Directory dir;
  write_file(dir.file("old"), "old");
  rlimit before = {};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny = {1000, before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &tiny) == 0);
  std::string fits, fails, replaces;
  try {
    write_file(dir.file("fits"), std::string(1000, 'x'));
  } catch (const FileError& error) {
    fits = error.what();
  }
  try {
    write_file(dir.file("fails"), std::string(1001, 'x'));
  } catch (const FileError& error) {
    fails = error.what();
  }
  try {
    write_file(dir.file("old"), std::string(2'000'000, 'x'));
  } catch (const FileError& error) {
    replaces = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  BOOST_TEST(fits == "");
  BOOST_TEST(has(fails, "fails: cannot write: File too large"));
  BOOST_TEST(has(replaces, "old: cannot write: File too large"));
  BOOST_TEST(contents(dir.file("old")) == "old");
  BOOST_TEST(dir.entries() == 2);
}

BOOST_AUTO_TEST_CASE(places_that_cannot_be_written) {
  const Directory dir;
  BOOST_TEST(has(message<FileError>([&] { OutputFile f(dir.file("no/such")); }),
                 "No such file or directory"));
  BOOST_TEST(
      has(message<FileError>([&] { OutputFile f(dir.path.string()); }), "names a directory"));
  BOOST_TEST(
      has(message<FileError>([&] { OutputFile f(dir.path.string() + "/"); }), "names a directory"));
  BOOST_TEST(
      has(message<FileError>([&] { OutputFile f(dir.file("x") + "/"); }), "names a directory"));
  BOOST_TEST(has(message<FileError>([] { OutputFile f(""); }), "empty name"));
  write_file(dir.file("a"), "");
  BOOST_TEST(has(message<FileError>([&] { OutputFile f(dir.file("a/b")); }), "Not a directory"));
  BOOST_TEST(has(message<FileError>([&] { OutputFile f(dir.file(std::string(300, 'n').c_str())); }),
                 "File name too long"));
  fs::create_symlink("nowhere", dir.file("dangling"));
  BOOST_TEST(
      has(message<FileError>([&] { OutputFile f(dir.file("dangling")); }), "link to nothing"));
  // A name as long as the system allows works, though the temporary file has another one.
  BOOST_CHECK_NO_THROW(write_file(dir.file(std::string(255, 'n').c_str()), "x"));
  BOOST_TEST(dir.entries() == 3);
}

BOOST_AUTO_TEST_CASE(a_read_only_file_is_not_replaced) {
  const Unprivileged unprivileged;
  const Directory dir;
  write_file(dir.file("a"), "old");
  BOOST_REQUIRE(::chmod(dir.file("a").c_str(), 0444) == 0);
  BOOST_TEST(
      has(message<FileError>([&] { write_file(dir.file("a"), "new"); }), "Permission denied"));
  BOOST_TEST(contents(dir.file("a")) == "old");
}

// A file whose directory vanishes before commit cannot be put in place.
BOOST_AUTO_TEST_CASE(a_failing_rename_is_an_error) {
  const Directory dir;
  fs::create_directory(dir.path / "d");
  OutputFile file((dir.path / "d" / "a").string());
  file.write("x");
  fs::remove_all(dir.path / "d");
  BOOST_TEST(has(message<FileError>([&] { file.commit(); }), "cannot rename into place"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
