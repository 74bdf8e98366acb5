package status

import (
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Sandbox is how a backend's process is restricted (package sandbox).
type Sandbox struct {
	// Mode is that of the configuration: auto, required or off.
	Mode string `json:"mode"`
	// InForce is what is in force, in a few words: full, off, "all but user", "5 of 12".
	InForce string `json:"inForce"`
	// Measures are those in force, as the kernel has them, and the others with the reason.
	Measures []sandbox.Measure `json:"measures,omitempty"`
	// Given is what the process gets beyond its own files, and Missing what its manifest lists beyond that.
	Given   *sandbox.Needs `json:"given,omitempty"`
	Missing *sandbox.Needs `json:"missing,omitempty"`
	// Unmatched are paths of Given that match no file now.
	Unmatched []string `json:"unmatched,omitempty"`
}

func sandboxOf(b *config.Backend, s supervisor.Status) *Sandbox {
	box := &Sandbox{Mode: string(b.Sandbox.Mode), InForce: s.Sandbox.Summary(), Measures: s.Sandbox.Measures, Unmatched: s.Sandbox.Unmatched}
	if b.Sandbox.Mode == sandbox.Off {
		box.InForce = "off"
	}
	if !s.Given.Empty() {
		box.Given = &s.Given
	}
	if !s.Missing.Empty() {
		box.Missing = &s.Missing
	}
	return box
}
