"""An experiment from its configuration to a finished board: config, plan, runner, executors."""
