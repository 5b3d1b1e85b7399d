"""What tests of several folders share: servers, projects, tables and processes."""
