package supervisor

import "github.com/accelmux/accelmux/core/sandbox"

// problems returns those of a running process.
func (i *instance) problems() []string {
	var all []string
	if i.spec.Sandbox.Mode == sandbox.Off {
		all = append(all, "sandbox.mode is off: its process has all rights of the agent; remove it from the configuration when it is no longer needed")
	}
	if missing := i.rights.missing; !missing.Empty() {
		all = append(all, "its manifest lists for the process what the configuration does not give it, and it runs without: check that it may have that, and write "+
			"allow: {declared: accept}, or allow: {process: "+missing.YAML()+"}")
	}
	return append(all, i.process.Problems()...)
}
