"""The commands, one module each; `specplan.cli` imports a module when its command is called."""
