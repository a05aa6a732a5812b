# What models look like and what their attention costs to move: architectures and the ledger.

# The table of models is compiled in, so that programs need no file of it.
file(READ ${CMAKE_CURRENT_LIST_DIR}/models.json BDLM_MODELS_JSON)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${CMAKE_CURRENT_LIST_DIR}/models.json)
configure_file(${CMAKE_CURRENT_LIST_DIR}/models_json.cc.in
               ${CMAKE_CURRENT_BINARY_DIR}/models_json.cc @ONLY)

add_library(bdlm_architecture STATIC architecture.cc config_json.cc config_keys.cc ledger.cc ledger_rows.cc
            ${CMAKE_CURRENT_BINARY_DIR}/models_json.cc)
target_link_libraries(bdlm_architecture PUBLIC bdlm_flags bdlm_base bdlm_layout)

bdlm_test(architecture_tests
          SOURCES architecture_test.cc config_json_test.cc ledger_rows_test.cc ledger_test.cc
          LIBS bdlm_architecture)
