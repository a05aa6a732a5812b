# Communicators: ranks as threads, and as processes where MPI is found.
add_library(bdlm_communicator STATIC call_shape.cc rank_order_sum.cc
            thread_moves.cc thread_group.cc thread_communicator.cc)
target_link_libraries(bdlm_communicator PUBLIC bdlm_flags bdlm_schedule Threads::Threads)

bdlm_test(communicator_tests
  SOURCES ../schedule/communicator_test.cc thread_communicator_test.cc thread_group_test.cc
          testing_program.cc
  LIBS bdlm_communicator)

if(MPI_CXX_FOUND)
  add_library(bdlm_mpi STATIC mpi_session.cc mpi_transfer.cc mpi_communicator.cc)
  target_link_libraries(bdlm_mpi PUBLIC bdlm_communicator MPI::MPI_CXX)
  # The C++ bindings that MPI's header would otherwise declare are long gone from the standard.
  target_compile_definitions(bdlm_mpi PUBLIC BDLM_HAVE_MPI OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  if(BDLM_TESTS)
    add_executable(mpi_communicator_tests mpi_communicator_test.cc testing_program.cc)
    target_link_libraries(mpi_communicator_tests PRIVATE bdlm_test_main bdlm_mpi)
    set_target_properties(mpi_communicator_tests PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    foreach(ranks 2 3 4)
      bdlm_mpi_test(mpi_communicator_tests ${ranks})
      set_tests_properties(mpi_communicator_tests_${ranks} PROPERTIES TIMEOUT 300)
    endforeach()
  endif()
endif()
