// Package rig is what benchmarks share: sections and their figures beside floor and
// limit, a node of an agent and a stand-in kubelet, a bare gRPC server to compare with,
// calls timed in turns, and what processes use. What the hardware is, is the
// benchmark's own.
//
// A section of `make bench` is a package beside this one with a [Section] in it, and a
// line in the table of test/bench/sections.go:
//
//	var Section = rig.Section{Name: "scale", About: "...", Measure: measure}
//
//	func measure(s *rig.Setup) ([]rig.Figure, error) {
//		n, err := rig.Start(rig.NodeOptions{Bin: s.Bin, Config: config, Want: map[string]int{resource: 50_000}})
//		...
//		return []rig.Figure{{What: "memory of the core", Value: 120, Limit: 150, Unit: "MB", Samples: 1}}, n.Stop()
//	}
//
// What a section needs as another process than the program itself is one of its roles
// (see [Self]). Whether a limit is met decides nothing: an error ends a section, a
// missed limit is a line of its table.
package rig
