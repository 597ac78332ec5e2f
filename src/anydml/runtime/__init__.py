"""The runtime: create, compile, bind, dispatch. Each phase is a type and does one job."""
