# The CPU engine and the training step over any communicator; the double instantiation is compiled
# here, once.
add_library(bdlm_step STATIC dense_step.cc key_passes.cc step_case.cc)
target_link_libraries(bdlm_step PUBLIC bdlm_model bdlm_objective bdlm_schedule bdlm_communicator)

# With dual numbers the step does what it does in double, too slowly for a sanitizer.
bdlm_test(step_tests OPTIMIZED
          SOURCES cpu_engine_test.cc dense_step_test.cc key_passes_test.cc
          UNSANITIZED step_gradient_test.cc
          LIBS bdlm_step)
