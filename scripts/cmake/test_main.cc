// The one main function of every test program.
#define BOOST_TEST_MODULE bdlm
#include <boost/test/unit_test.hpp>
