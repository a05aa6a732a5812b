// CMake asks for a source file where a target has only headers.
